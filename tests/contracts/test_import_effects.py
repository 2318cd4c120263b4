"""Importing the package changes nothing in the process, and reads what it takes."""

import pytest

MAX_FILES = 140
MAX_LINES = 22_000

pytestmark = pytest.mark.slow


@pytest.fixture
def found(run_program):
    return run_program("import_package.py", is_fresh=True)


def test_importing_the_package_adds_one_finder_and_nothing_else(found):
    assert found["changed"] == []
    assert found["finders"] == ["quintain.reference.reference_imports"]
    assert found["specs"] == ["SourceFileLoader", "SourceFileLoader"]
    assert found["is_whole"]


def test_train_lib_reads_few_files_and_lines(found):
    """Programs that train one task read only what that takes."""
    assert 50 < found["num_files"] <= MAX_FILES
    assert found["num_lines"] <= MAX_LINES


def test_importing_draws_no_random_numbers(found):
    """Else what a seed gives would depend on what was imported before it was set."""
    assert found["has_garden"]
    assert not found["drew_random"]
