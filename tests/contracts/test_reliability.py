"""Every promise of docs/explanation/reliability.md names tests that are there."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PROMISES = (ROOT / "docs/explanation/reliability.md").read_text()
ROWS = [re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", row) for row in PROMISES.splitlines()]
NAMED = sorted({tuple(row) for row in ROWS if row})


@pytest.mark.parametrize("tests", NAMED, ids=lambda row: "+".join(map("::".join, row)))
def test_the_tests_of_a_promise_are_there_and_one_runs_every_time(tests):
    found = [list(_find_tests(path, name)) for path, name in tests]

    assert all(found)
    assert not all(_is_long(one) for same in found for one in same)


def _find_tests(path, name):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    for one in tree.body:
        if isinstance(one, ast.FunctionDef) and one.name.startswith(name or "test_"):
            yield one


def _is_long(test):
    """Returns whether all of a test is left to `scripts/test_all`."""
    marks = [ast.unparse(one) for one in test.decorator_list]
    return any("mark.long(" in mark and "but=" not in mark for mark in marks)


def test_every_promise_names_a_test():
    rows = re.findall(r"^\|(?! promise | code |---)(.*)\|$", PROMISES, re.M)

    assert len(rows) > 40
    assert [row for row in rows if "`tests/" not in row] == []
