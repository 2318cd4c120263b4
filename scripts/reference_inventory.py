#!/usr/bin/env python
"""Lists what the Model Garden offers to programs: modules, names, arguments and defaults.

    scripts/reference_inventory.py DIRECTORY > tests/contracts/reference_names.txt

The directory holds the packages `official` and `orbit`, installed or unpacked. They are read as
syntax trees and not imported. Each line is one fact: a module in brackets, then its names, with
what they take; `@` marks an attribute of instances, `=` what a name is by default.
"""

import ast
import pathlib
import sys
from collections.abc import Iterator

PACKAGES = (
    "official/common",
    "official/core",
    "official/modeling",
    "official/nlp/configs",
    "official/nlp/continuous_finetune_lib.py",
    "official/nlp/data",
    "official/nlp/metrics",
    "official/nlp/modeling",
    "official/nlp/optimization.py",
    "official/nlp/serving",
    "official/nlp/tasks",
    "official/nlp/tools",
    "official/nlp/train.py",
    "official/utils",
    "orbit",
)


def is_public(name: str) -> bool:
    """Returns whether programs may name it."""
    return not name.startswith("_")


def read_arguments(function: ast.FunctionDef, *, is_method: bool) -> str:
    """Returns the arguments as they are written between the parentheses, without annotations."""
    arguments = function.args
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        argument.annotation = None
    for rest in (arguments.vararg, arguments.kwarg):
        if rest:
            rest.annotation = None
    names = {
        decorator.id for decorator in function.decorator_list if isinstance(decorator, ast.Name)
    }
    if is_method and "staticmethod" not in names:
        (arguments.posonlyargs or arguments.args)[:1] = []
    return ast.unparse(arguments)


def has_decorator(node: ast.ClassDef | ast.FunctionDef, *words: str) -> bool:
    """Returns whether a decorator has one of these words in it."""
    return any(word in ast.unparse(found) for found in node.decorator_list for word in words)


def read_instance_attributes(function: ast.FunctionDef) -> Iterator[str]:
    """Yields what a constructor sets on the object."""
    for node in ast.walk(function):
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        for target in targets:
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                yield target.attr


def read_class(node: ast.ClassDef) -> Iterator[str]:
    """Yields the facts of a class."""
    is_record = has_decorator(node, "dataclass")
    for part in node.body:
        if isinstance(part, ast.FunctionDef):
            if part.name == "__init__":
                yield f"{node.name}({read_arguments(part, is_method=True)})"
                found = read_instance_attributes(part)
                yield from (
                    f"{node.name}.@{name}" for name in dict.fromkeys(found) if is_public(name)
                )
            elif has_decorator(part, "property"):
                if is_public(part.name):
                    yield f"{node.name}.@{part.name}"
            elif is_public(part.name) and not has_decorator(part, ".setter"):
                yield f"{node.name}.{part.name}({read_arguments(part, is_method=True)})"
        elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            if is_public(part.target.id):
                default = f" = {ast.unparse(part.value)}" if part.value else ""
                yield f"{node.name}.{'' if is_record else '@'}{part.target.id}{default}"
        elif isinstance(part, ast.Assign):
            for target in part.targets:
                if isinstance(target, ast.Name) and is_public(target.id):
                    yield f"{node.name}.@{target.id}"


def read_module(path: pathlib.Path, root: pathlib.Path) -> Iterator[str]:
    """Yields the facts of a module; a package also offers what it imports."""
    is_package = path.stem == "__init__"
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef) and is_public(node.name):
            yield f"class {node.name}"
            yield from read_class(node)
        elif isinstance(node, ast.FunctionDef) and is_public(node.name):
            yield f"{node.name}({read_arguments(node, is_method=False)})"
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                for name in names:
                    if isinstance(name, ast.Name) and is_public(name.id) and name.id != "FLAGS":
                        yield f"name {name.id}"
        elif isinstance(node, ast.ImportFrom) and is_package:
            for found in node.names:
                name = found.asname or found.name
                if name == "*":
                    home = root.joinpath(*(node.module or "").split(".")).with_suffix(".py")
                    yield from (f"name {one}" for one in read_top_names(home, root))
                elif is_public(name):
                    yield f"name {name}"


def read_top_names(path: pathlib.Path, root: pathlib.Path) -> Iterator[str]:
    """Yields the names that a module defines for others."""
    for fact in read_module(path, root):
        kind, _, name = fact.partition(" ")
        if kind in ("class", "name"):
            yield name
        elif "." not in fact.partition("(")[0] and not fact[0].isupper():
            yield fact.partition("(")[0]


def list_files(root: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields the files that programs import, without tests and examples."""
    for package in PACKAGES:
        path = root / package
        for file in [path] if path.suffix else sorted(path.rglob("*.py")):
            parts = file.relative_to(root).with_suffix("").parts
            is_module = parts[-1] == "__init__" or is_public(parts[-1])
            if is_module and not {"examples", "docs"} & set(parts):
                yield file


def main(root: pathlib.Path) -> None:
    """Prints the facts of the packages below a directory."""
    for file in list_files(root):
        parts = file.relative_to(root).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        names = parts[1:] if parts[0] == "official" else parts
        facts = list(dict.fromkeys(read_module(file, root)))
        print(f"[{'.'.join(names[:-1] if is_package else names)}]")  # noqa: T201
        print(*facts, sep="\n", end="\n" if facts else "")  # noqa: T201


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
