"""Tests that are marked `long`: when they run, and how a run says that they did not."""

import pathlib
import shutil
import subprocess
import sys

import pytest

TESTS = """
import pytest

def test_short():
    pass

@pytest.mark.slow
@pytest.mark.long("one shows it", but=["2"])
@pytest.mark.parametrize("seed", range(4))
def test_of_seeds(seed):
    pass

def test_that_kills(is_long):
    print("kills", 50 if is_long else 3)
"""
INI = "[pytest]\naddopts = --strict-markers\nmarkers =\n    slow: s\n    long(reason, but): l\n"


@pytest.fixture
def run(tmp_path):
    conftest = pathlib.Path(__file__).parents[1] / "conftest.py"
    shutil.copy(conftest, tmp_path)
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "test_a.py").write_text(TESTS)

    def run(*arguments):
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.mark.slow
def test_long_tests_run_where_they_are_asked_for_and_are_counted_where_they_are_not(run):
    left_out = "3 long tests left out: `scripts/test_all` lists and runs them."
    told = run("-n", "2")
    assert "3 passed" in told
    assert left_out in told
    told = run("test_a.py::test_of_seeds[1]")
    assert "1 passed" in told
    assert "left out" not in told

    told = run("--long", "--collect-only", "-qq", "-m", "long")
    reasons = told.partition("= long tests =")[2]
    assert "one shows it:\n  test_a.py::test_of_seeds (3 tests)" in reasons
    assert "less in each run:\n  test_a.py::test_that_kills\n" in reasons
