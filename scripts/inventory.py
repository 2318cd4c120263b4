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

from quintain import reference_names

_ROOT = pathlib.Path(__file__).parents[1]
FACTS = _ROOT / "tests/contracts/reference_names.txt"


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


def read_facts(file: pathlib.Path = FACTS) -> Iterator[Fact]:
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


def find_difference(fact: Fact) -> str | None:
    """Returns what of a fact is not so here, in a few words; None if all of it is."""
    try:
        module = importlib.import_module(f"quintain.{fact.module}")
    except ImportError as error:
        return f"no module: {error}" if fact.kind == "module" else "no module"
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
    except AttributeError:
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
    if not callable(ours):
        return "is no function"
    try:
        signature = inspect.signature(ours.__init__ if inspect.isclass(ours) else ours)
    except ValueError:
        return None
    parameters = dict(signature.parameters)
    if next(iter(parameters), "") in ("self", "cls"):
        parameters.pop(next(iter(parameters)))
    [function] = ast.parse(f"def f({fact.text}): pass").body
    assert isinstance(function, ast.FunctionDef)
    theirs = function.args
    positional = [argument.arg for argument in [*theirs.posonlyargs, *theirs.args]]
    defaults = dict(zip(positional[::-1], theirs.defaults[::-1], strict=False))
    defaults |= {
        argument.arg: default
        for argument, default in zip(theirs.kwonlyargs, theirs.kw_defaults, strict=True)
        if default is not None
    }
    names = positional + [argument.arg for argument in theirs.kwonlyargs]
    kinds = inspect.Parameter
    takes_any = any(p.kind is kinds.VAR_KEYWORD for p in parameters.values())
    missing = [name for name in names if name not in parameters]
    if missing and not (takes_any and not any(name in positional[:1] for name in missing)):
        return f"no argument {', '.join(missing)}"
    own = [name for name, p in parameters.items() if p.kind is kinds.POSITIONAL_OR_KEYWORD]
    if own[: len(positional)] != positional and not missing:
        keyword_only = [n for n in positional if parameters[n].kind is kinds.KEYWORD_ONLY]
        return (
            f"by keyword only: {', '.join(keyword_only)}"
            if keyword_only
            else f"order {', '.join(own)}, there {', '.join(positional)}"
        )
    for name, default in defaults.items():
        if name in parameters:
            own_default = parameters[name].default
            if own_default is kinds.empty:
                return f"{name} has no default, there {ast.unparse(default)}"
            if not _is_same(ast.unparse(default), own_default):
                return f"{name}={own_default!r}, there {ast.unparse(default)}"
    for name, p in parameters.items():
        is_any = p.kind in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL)
        if name not in names and p.default is kinds.empty and not is_any:
            return f"needs {name}"
        if name in names and name not in defaults and p.default is not kinds.empty:
            pass
    return None


if __name__ == "__main__":
    seen = set()
    for fact in read_facts():
        if reference_names.find_refusal(fact.path):
            continue
        difference = find_difference(fact)
        if difference and difference not in ("no module",):
            if any(fact.path.startswith(f"{p}.") for p in seen):
                continue
            if difference == "no such name":
                seen.add(fact.path)
            print(fact.path, "|", difference)
