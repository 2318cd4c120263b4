"""A name that was public stays, until a deprecation is over."""

import os
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parents[2]


def test_public_names_are_those_of_the_list():
    """Deprecate what is to go first: `docs/reference/stability.md` says how long."""
    listed = pathlib.Path(__file__).with_name("public_names.txt").read_text("utf-8").splitlines()

    # In a process of its own: other tests register experiments.
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/public_names.py")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    found = done.stdout.splitlines()
    assert sorted({*listed} - {*found}) == [], "These names are gone."
    assert sorted({*found} - {*listed}) == [], "Add them, as scripts/public_names.py says."
