"""Who lists a directory that somebody else changes leaves out what goes meanwhile."""

import ast
import pathlib

import pytest

import quintain

_ROOT = pathlib.Path(quintain.__file__).parent
_PARTS = ("client", "cluster", "master", "records", "server", "storage", "store", "trials")

_MAY_LIST = {
    "client/home/home.py": "lists the names of its own logs, and passes over one that is gone",
    "client/home/token_files.py": "lists the tokens of users below its own directory",
    "client/provenance.py": "passes over directories that can't be listed",
    "cluster/agents/agent_directory.py": "reads its own notes of launches, names damaged ones",
    "cluster/ray/ray_directories.py": "passes over what can't be listed",
    "records/config/source_folders.py": "reads the user's code, at one go",
    "records/config/source_imports.py": "reads the user's code, at one go",
    "master/processes/fork_server.py": "lists what it has itself",
    "master/transfer/model_files.py": "copies the user's code, and passes over what is gone",
    "master/processes/process_usage.py": "passes over processes that have ended",
    "server/routes/page.py": "reads the page's own files",
    "server/runs/run_index.py": "passes over directories that can't be listed",
    "server/runs/run_reader.py": "passes over directories that can't be listed",
    "server/runs/run_samples.py": "passes over directories that can't be listed",
    "storage/run_mirror.py": "looks again if a file of a run is gone",
    "trials/graphs/estimator_trial.py": "lists what the trial has written itself",
    "trials/process/rank_files.py": "lists what the trial has written itself",
    "trials/task_trial.py": "lists the trial's own files",
    "trials/process/trial_loader.py": "reads the user's code, which is a copy",
    "trials/warm_up.py": "lists the devices of the system, by name only",
}
"""Files that list directories without `changing_files`, and why nothing fails by it."""

_LISTS = {"iterdir", "glob", "rglob", "scandir", "listdir", "walk"}
_OTHERS = {"ast", "changing_files"}


def _find_calls(source):
    return [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _LISTS
        and not (isinstance(node.func.value, ast.Name) and node.func.value.id in _OTHERS)
    ]


@pytest.mark.slow
def test_only_files_with_a_reason_list_directories_themselves():
    found = {
        path.relative_to(_ROOT).as_posix()
        for part in _PARTS
        for path in sorted((_ROOT / part).rglob("*.py"))
        if _find_calls(path.read_text("utf-8"))
    }
    assert found == set(_MAY_LIST)
