"""Every promise of docs/explanation/reliability.md names tests that are there."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PROMISES = (ROOT / "docs/explanation/reliability.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PROMISES)))


@pytest.mark.parametrize(("path", "name"), NAMED, ids="::".join)
def test_the_test_of_a_promise_is_there_and_runs_every_time(path, name):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    tests = [one for one in tree.body if isinstance(one, ast.FunctionDef)]

    assert any(one.name.startswith(name or "test_") and not _is_long(one) for one in tests)


def _is_long(test):
    """Returns whether all of a test is left to `scripts/test_all`."""
    marks = [ast.unparse(one) for one in test.decorator_list]
    return any("mark.long(" in mark and "but=" not in mark for mark in marks)


def test_every_promise_names_a_test():
    rows = re.findall(r"^\|(?! promise | code |---)(.*)\|$", PROMISES, re.M)

    assert len(rows) > 40
    assert [row for row in rows if "`tests/" not in row] == []
