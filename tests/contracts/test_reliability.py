"""Every promise of docs/explanation/reliability.md names tests that are there."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PROMISES = (ROOT / "docs/explanation/reliability.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PROMISES)))


@pytest.mark.parametrize(("path", "name"), NAMED, ids="::".join)
def test_the_test_of_a_promise_is_there(path, name):
    text = (ROOT / path).read_text(encoding="utf-8")

    assert f"def {name or 'test_'}" in text


def test_every_promise_names_a_test():
    rows = re.findall(r"^\|(?! promise | code |---)(.*)\|$", PROMISES, re.M)

    assert len(rows) > 40
    assert [row for row in rows if "`tests/" not in row] == []
