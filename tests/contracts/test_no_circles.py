"""No file of the package imports, over whatever ways, a file that imports it."""

import ast
import graphlib
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).parents[2] / "quintain"


@pytest.mark.slow
def test_no_files_import_each_other_in_a_circle():
    imports = {name: find_imports(path) for name, path in find_modules(PACKAGE).items()}

    assert describe_circle(imports) == ""


def test_a_circle_is_named(tmp_path):
    package = tmp_path / "house"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "door.py").write_text("from house import hall\n")
    (package / "hall.py").write_text("def enter():\n    import house.stairs\n")
    (package / "stairs.py").write_text("from house.door import open_door\n")

    imports = {name: find_imports(path) for name, path in find_modules(package).items()}

    circle = describe_circle(imports).split(" -> ")
    assert circle[0] == circle[-1]
    assert set(circle) == {"house.door", "house.hall", "house.stairs"}


def find_modules(package):
    """Returns all files of a package by the names of their modules."""
    relatives = {path: path.relative_to(package.parent) for path in package.rglob("*.py")}
    return {
        ".".join(relative.with_suffix("").parts).removesuffix(".__init__"): path
        for path, relative in relatives.items()
    }


def find_imports(path):
    """Returns what a file imports anywhere, names that are no modules among them."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names):
                found |= {module, *(f"{module}.{alias.name}" for alias in names)}
    return found


def describe_circle(imports):
    """Returns the modules of one circle, in its order; nothing if there is none.

    `from house import hall` counts as an import of `house.hall`, not of what `house` imports.
    """
    graph = {}
    for name, found in imports.items():
        direct = found & imports.keys() - {name}
        modules = {one for one in direct if any(other.startswith(f"{one}.") for other in direct)}
        graph[name] = direct - modules
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return " -> ".join(error.args[1])
    return ""
