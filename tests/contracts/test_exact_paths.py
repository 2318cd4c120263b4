"""Paths are taken as they are: no file is deleted, and no checkpoint read, by a pattern."""

import ast
import pathlib

import pytest

import quintain

_ROOT = pathlib.Path(quintain.__file__).parent

_MAY_GLOB = {
    "input/input_files.py": "the user's own patterns of data files, which are only read",
    "cli/training/checkpoint_export.py": "looks for models in a checkpoint, below a directory",
    "client/home/token_files.py": "names the tokens of users below a directory taken as it is",
    "cli/experiment/file.py": "names the templates below a directory taken as it is",
    "files/file_io.py": "the door of what expands the user's own patterns",
    "files/file_systems.py": "expands the user's own patterns, to be read",
    "server/routes/page.py": "reads the page's own files",
    "cli/platform/checkpoint.py": "lists the models in a checkpoint below a directory",
    "cli/training/export.py": "adds up the sizes of files below a directory taken as it is",
    "server/checkpoint_files.py": "lists the files of a checkpoint below a directory as it is",
    "trials/task_trial.py": "imports the Python files of a model directory",
    "trials/process/trial_checkpoint.py": "hashes and syncs all files below a directory",
    "trials/process/trial_loader.py": "looks for Python files in a model directory",
    "cluster/agents/agent_directory.py": "reads its own notes of launches",
    "testing/postgres_server.py": "looks for the programs of a server",
    "files/atomic_write.py": "syncs all files below a directory taken as it is",
    "trials/process/rank_files.py": "reads what a trial has written into an empty directory",
}
"""Files that may call `glob` or `rglob`, and why nothing is lost by it."""

_GLOBS = {"glob", "rglob", "iglob", "get_matching_files", "match_filenames_once"}
_TAKE_PATTERNS = {"load_checkpoint", "latest_checkpoint", "checkpoint_exists"}


def _find_calls(source, names):
    return [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in names
    ]


def _is_literal(call):
    """Whether what TensorFlow's function gets is a path made for it."""
    (argument,) = call.args
    return isinstance(argument, ast.Call) and ast.unparse(argument.func).startswith("literal_paths")


def _read_package():
    return {
        path.relative_to(_ROOT).as_posix(): path.read_text("utf-8")
        for path in sorted(_ROOT.rglob("*.py"))
    }


@pytest.mark.slow
def test_only_files_with_a_reason_look_for_files_by_a_pattern():
    found = {name for name, source in _read_package().items() if _find_calls(source, _GLOBS)}

    assert found <= set(_MAY_GLOB)


@pytest.mark.parametrize("name", sorted(_MAY_GLOB))
def test_what_looks_for_files_by_a_pattern_deletes_none_of_them(name):
    source = (_ROOT / name).read_text("utf-8")
    looked_for = {
        function.name
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.FunctionDef)
        and _find_calls(ast.unparse(function), _GLOBS)
        and _find_calls(ast.unparse(function), {"rmtree", "remove", "unlink", "rmdir"})
    }

    assert looked_for == set()


@pytest.mark.slow
def test_tensorflows_readers_that_take_patterns_get_literal_paths():
    given_as_they_are = {
        name: [ast.unparse(call) for call in calls if not _is_literal(call)]
        for name, source in _read_package().items()
        if (calls := _find_calls(source, _TAKE_PATTERNS))
    }

    assert not any(given_as_they_are.values()), given_as_they_are


def test_the_search_finds_what_it_is_for():
    source = "tf.io.gfile.glob(f'{path}.data-*')\npathlib.Path(path).rglob('*')\nglob.glob(path)"

    assert len(_find_calls(source, _GLOBS)) == 3
