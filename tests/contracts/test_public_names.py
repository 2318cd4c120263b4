"""A name that was public stays, until a deprecation is over."""

import pytest

import public_names

pytestmark = pytest.mark.slow


def test_public_names_are_those_of_the_list():
    """Deprecate what is to go first: `docs/reference/stability.md` says how long."""
    listed = public_names.FILE.read_text(encoding="utf-8").splitlines()
    found = public_names.list_names()

    assert sorted({*listed} - {*found}) == [], "These names are gone."
    assert sorted({*found} - {*listed}) == [], "Add them: PYTHONPATH=. scripts/public_names.py"
