"""The modules of the page as one, so that browsers ask once for them, and get less.

There is no build: the modules run as they are, too. What is served in place of the first of them
has all that it may load, each as a function that is called when it is first needed.
"""

import pathlib
import re
from collections.abc import Iterator
from typing import Final

FIRST: Final = "app.js"
"""The module that a page loads, which loads all others."""

OTHERS: Final = "vendor"
"""Directory of the modules of others, which are served by themselves and to the letter."""

_COMMENT: Final = re.compile(
    r"^[ \t]*(?:/\*\*(?:(?!\*/).)*\*/|//[^\n]*)[ \t]*\n|/\*\* @(?:(?!\*/).)*\*/ ?",
    re.DOTALL | re.MULTILINE,
)
"""What is for people and for the check of types only."""

_NAMED: Final = re.compile(r'"\./([\w/]+\.js)"')
_IMPORT: Final = re.compile(r'^import (\{[^}]*\}|\* as \w+) from "\./([\w/]+\.js)";$', re.MULTILINE)
_LOAD: Final = re.compile(r"\bimport\((\w+)\)")
_EXPORT: Final = re.compile(
    r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE
)
_HEAD: Final = """const $makers = {}, $made = {};
const $need = (name) => $made[name] ??= $makers[name]();
const $load = async (path) => $need(path.slice(2));
"""
"""No name in a module begins like these."""


def leave_out_comments(text: str) -> str:
    """Returns a module without comments that have lines of their own, and without its types."""
    return _COMMENT.sub("", text)


def list_modules(directory: pathlib.Path) -> list[str]:
    """Returns the names of all modules that the first one may load, itself the last."""
    found: dict[str, None] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            circle = " -> ".join([*path[path.index(name) :], name])
            raise ValueError(f"Modules of the page import each other: {circle}.")
        if name in found or name.startswith(OTHERS):
            return
        text = leave_out_comments((directory / name).read_text(encoding="utf-8"))
        for imported in _IMPORT.finditer(text):
            visit(imported[2], (*path, name))
        found[name] = None
        for named in _NAMED.findall(text):
            visit(named, ())

    visit(FIRST, ())
    return list(found)


def join(directory: pathlib.Path) -> str:
    """Returns one module that does what the first one does.

    Raises:
        ValueError: If modules import each other in a circle, or in a way that is not known here.
    """
    names = list_modules(directory)
    texts = {name: leave_out_comments((directory / name).read_text("utf-8")) for name in names}
    others = sorted({name for text in texts.values() for name in _list_others(text)})
    parts = [f'import * as other{i} from "./{name}";' for i, name in enumerate(others)]
    parts.append(_HEAD)
    parts += [f'$made["{name}"] = other{i};' for i, name in enumerate(others)]
    parts += [f'$makers["{name}"] = () => {{\n{_wrap(text)}\n}};' for name, text in texts.items()]
    return "\n".join([*parts, f'$need("{FIRST}");\n'])


def _list_others(text: str) -> Iterator[str]:
    for imported in _IMPORT.finditer(text):
        if imported[2].startswith(f"{OTHERS}/"):
            yield imported[2]


def _wrap(text: str) -> str:
    """Returns the body of a function that runs a module and returns what it exports."""
    names = [found[1] for found in _EXPORT.finditer(text)]
    body = _EXPORT.sub("", _LOAD.sub(r"$load(\1)", _IMPORT.sub(_bind, text)))
    left = re.search(r"^(?:import|export)\b.*", body, re.MULTILINE)
    if left:
        raise ValueError(f"A module of the page has {left[0]!r}, which can't be joined.")
    return f"{body}return {{ {', '.join(names)} }};"


def _bind(imported: re.Match[str]) -> str:
    names = imported[1].replace("* as ", "").replace(" as ", ": ")
    return f'const {names} = $need("{imported[2]}");'
