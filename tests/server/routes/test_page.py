"""The modules of the page as they are: each is used, and a view needs few bytes."""

import functools
import gzip
import re

import pytest

from quintain.server.routes import page

MOST_BYTES = 150_000
SCRIPTS = {"theme.js", "arriving.js", "vendor/uplot.js"}
"""What the documents load by themselves."""

IMPORT = re.compile(r'^import [^;]* from "(\.[^"]+\.js)";', re.MULTILINE)
NAMED = re.compile(r'(?<!import\()"(\.[\w./]+\.js)"')
"""Also of what is loaded when it is needed, but not of types."""

VIEWS = sorted(set(re.findall(r'module: "\./([^"]+)"', (page.DIRECTORY / "app.js").read_text())))


@functools.cache
def find_needs(name, pattern=IMPORT):
    """Returns the names of all modules that one loads, itself included."""
    path = page.DIRECTORY / name
    found = {name}
    for other in pattern.findall(path.read_text("utf-8")):
        needed = (path.parent / other).resolve().relative_to(page.DIRECTORY).as_posix()
        found |= find_needs(needed, pattern)
    return found


@pytest.mark.parametrize("view", VIEWS)
def test_all_that_a_view_loads_is_light(view):
    names = find_needs("app.js") | find_needs(view) | {"theme.js", "vendor/uplot.js", "index.html"}
    paths = [page.DIRECTORY / name for name in names] + list(page.DIRECTORY.rglob("*.css"))

    assert sum(len(gzip.compress(path.read_bytes())) for path in paths) < MOST_BYTES


def test_every_module_is_loaded_by_one():
    names = {path.relative_to(page.DIRECTORY).as_posix() for path in page.DIRECTORY.rglob("*.js")}

    assert find_needs("app.js", NAMED) == names - SCRIPTS
