"""Compares what this package offers with what the Model Garden offers, fact by fact."""

import ast
import dataclasses
import functools
import importlib
import inspect
import pathlib
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from quintain.reference import reference_names


@dataclasses.dataclass(frozen=True)
class Fact:
    """One thing that the reference offers."""

    module: str
    """Path of the module, without `official.`."""
    name: str
    """`Class`, `Class.method`, `Class.field`, `function`; empty for the module itself."""
    kind: str
    """`module`, `class`, `name`, `call`, `attribute` or `field`."""
    text: str = ""
    """What is called with: the arguments; what a field is by default."""

    @property
    def path(self) -> str:
        """Where it is, with the module."""
        return f"{self.module}.{self.name}" if self.name else self.module


def read_facts(file: pathlib.Path) -> Iterator[Fact]:
    """Yields the facts of a file of `reference_inventory.py`."""
    module = ""
    for line in file.read_text().splitlines():
        if line.startswith("["):
            module = line[1:-1]
            yield Fact(module, "", "module")
        elif line.startswith(("class ", "name ")):
            kind, name = line.split(" ")
            yield Fact(module, name, kind)
        elif ".@" in line:
            yield Fact(module, line.partition(" = ")[0].replace(".@", "."), "attribute")
        elif match := re.match(r"([\w.]+)\((.*)\)$", line):
            yield Fact(module, match[1], "call", match[2])
        else:
            name, _, default = line.partition(" = ")
            yield Fact(module, name, "field", default)


@functools.cache
def _source(cls: type) -> str:
    try:
        return inspect.getsource(cls)
    except (OSError, TypeError):
        return ""


def _sets(cls: type, name: str) -> bool:
    """Returns whether a class, or one that it derives from, sets an attribute of its objects."""
    pattern = re.compile(rf"\bself\.{name}\b")
    return any(pattern.search(_source(base)) for base in cls.__mro__ if base is not object)


def _find(module: ModuleType, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _is_same(default: str, ours: Any) -> bool:
    """Returns whether a default is the one that is written; what is no literal is not compared."""
    try:
        theirs = ast.literal_eval(default)
    except ValueError:
        return True
    if isinstance(theirs, list | tuple) and isinstance(ours, list | tuple):
        return list(theirs) == list(ours)
    return theirs == ours and isinstance(theirs, bool) == isinstance(ours, bool)


@functools.cache
def find_difference(fact: Fact) -> str | None:
    """Returns what of a fact is not so here, in a few words; None if all of it is."""
    try:
        module = importlib.import_module(f"quintain.{fact.module}")
    except ImportError as error:
        return f"no module: {error}" if fact.kind == "module" else "no module"
    if isinstance(module, reference_names.Refused):
        return "no module"
    if fact.kind == "module":
        return None
    owner, _, last = fact.name.rpartition(".")
    try:
        if owner:
            cls = _find(module, owner)
            fields = _list_fields(cls)
            if fact.kind == "attribute":
                has = hasattr(cls, last) or last in fields or _sets(cls, last)
                return None if has else "no such attribute"
            if fact.kind == "field":
                if last not in fields:
                    return None if hasattr(cls, last) else "no such field"
                return _compare_field(fact, fields[last])
        ours = _find(module, fact.name)
    except (AttributeError, ImportError):
        return "no such name"
    if isinstance(ours, reference_names.Refused):
        return "no such name"
    return _compare_call(fact, ours) if fact.kind == "call" else None


def _list_fields(cls: Any) -> dict[str, Any]:
    if not dataclasses.is_dataclass(cls):
        fields = getattr(cls, "_fields", ())  # Of a named tuple.
        return dict.fromkeys(fields if isinstance(fields, tuple) else ())
    return {field.name: field for field in dataclasses.fields(cls)}


def _compare_field(fact: Fact, field: Any) -> str | None:
    if field is None or not fact.text:
        return None
    if field.default is not dataclasses.MISSING:
        ours = field.default
    elif field.default_factory is not dataclasses.MISSING:
        if "(" in fact.text and fact.text[0].isupper():
            return None
        ours = field.default_factory()
        if hasattr(ours, "as_dict"):
            return None
    else:
        return f"no default, there {fact.text}"
    return None if _is_same(fact.text, ours) else f"default {ours!r}, there {fact.text}"


def _compare_call(fact: Fact, ours: Any) -> str | None:
    """Returns how the arguments differ: each is there, in order, by place, with its default."""
    if not callable(ours):
        return "is no function"
    try:
        signature = inspect.signature(ours.__init__ if inspect.isclass(ours) else ours)
    except ValueError:  # Of a class that C code builds.
        return None
    kinds = inspect.Parameter
    parameters = {p.name: p for p in signature.parameters.values() if p.name not in ("self", "cls")}
    theirs = _read_arguments(fact.text)
    missing = [name for name in theirs if name not in parameters]
    if missing:
        return f"no argument {', '.join(missing)}"
    needed = [
        name
        for name, p in parameters.items()
        if name not in theirs
        and p.default is kinds.empty
        and p.kind not in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL)
    ]
    if needed:
        return f"needs {', '.join(needed)}"
    by_place = [p.name for p in parameters.values() if p.kind is kinds.POSITIONAL_OR_KEYWORD]
    positional = [name for name, argument in theirs.items() if argument.is_positional]
    if not missing and by_place[: len(positional)] != positional:
        return f"by place: {', '.join(by_place)}; there {', '.join(positional)}"
    for name, argument in theirs.items():
        if name in parameters and argument.default is not None:
            default = parameters[name].default
            if default is kinds.empty or not _is_same(argument.default, default):
                return f"{name}={default!r}, there {argument.default}"
    return None


@dataclasses.dataclass(frozen=True)
class _Argument:
    is_positional: bool
    default: str | None


def _read_arguments(text: str) -> dict[str, _Argument]:
    """Returns the arguments of a function, by name, but those that stand for any number."""
    [function] = ast.parse(f"def f({text}): pass").body
    assert isinstance(function, ast.FunctionDef), text
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + [*arguments.defaults]
    pairs = [
        *(
            (argument.arg, True, default)
            for argument, default in zip(positional, defaults, strict=True)
        ),
        *(
            (argument.arg, False, default)
            for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        ),
    ]
    return {
        name: _Argument(is_positional, ast.unparse(default) if default else None)
        for name, is_positional, default in pairs
    }
