import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def cold(run_program):
    """Returns what copies say of a process that has computed nothing."""
    return run_program("start_warm.py", "cold")


@pytest.fixture
def warm(run_program):
    """Returns what copies say of a process that has computed ahead."""
    return run_program("start_warm.py", "warm")


def test_no_thread_tensor_or_graph_is_left(cold, warm):
    assert warm["threads"] == cold["threads"]
    assert warm["left"] == 0


@pytest.mark.parametrize("what", ["know", "train", "train_in_graph", "configure", "join_cluster"])
def test_a_copy_finds_all_as_if_nothing_had_been_computed(cold, warm, what):
    assert warm["copies"][what] == cold["copies"][what]
    assert not isinstance(warm["copies"][what], str)


def test_programs_have_no_context_before_they_ask_for_one(cold, warm):
    assert warm["context"] == cold["context"]
