"""A file imports only from lower floors."""

import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parents[2]


def test_import_contracts_are_kept():
    result = subprocess.run(
        [str(pathlib.Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )

    assert result.returncode == 0, result.stdout
    assert "0 broken" in result.stdout
