import pytest

from quintain import errors
from quintain.master.processes import rendezvous
from quintain.records.rows import trial


def peer(number):
    return trial.Peer("a", "127.0.0.1", "127.0.0.1", number)


def test_all_are_told_of_all_once_they_are_there_also_by_a_restarted_master(tmp_path):
    assert rendezvous.meet(tmp_path / "t1", 1, 2, peer(1)) is None
    assert rendezvous.meet(tmp_path / "t1", 1, 2, peer(1)) is None

    for rank in (0, 1):
        # Nothing is kept in memory.
        assert rendezvous.meet(tmp_path / "t1", rank, 2, peer(rank)) == [peer(0), peer(1)]


@pytest.mark.parametrize(("rank", "size"), [(2, 2), (-1, 2), (0, 1), (0, 10**9)])
def test_numbers_that_can_not_be_are_refused(tmp_path, rank, size):
    with pytest.raises(errors.ConfigError, match="0 <= rank < size"):
        rendezvous.meet(tmp_path, rank, size, peer(0))


def test_all_have_to_expect_as_many(tmp_path):
    rendezvous.meet(tmp_path, 0, 3, peer(0))

    with pytest.raises(errors.StateError, match="expects 2 processes, another one 3"):
        rendezvous.meet(tmp_path, 1, 2, peer(1))
