import collections
import errno
import os
import threading
import time
import types
from concurrent import futures

import pytest

from quintain import errors
from quintain.storage import retries
from quintain.trials import distributed_context
from quintain.trials.process import shared_disk_space

_USAGE = collections.namedtuple("_USAGE", "free")


@pytest.fixture(name="contexts")
def _contexts():
    """The contexts of two processes, which are threads here."""
    barrier, given = threading.Barrier(2, timeout=60), [None, None]

    def build(rank):
        def exchange(content):
            given[rank] = content
            barrier.wait()
            found = list(given)
            barrier.wait()
            return found

        context = distributed_context.DistributedContext(rank, ["a", "b"])
        context.connect(exchange)
        return context

    return [build(0), build(1)]


@pytest.fixture(name="pauses")
def _pauses(monkeypatch):
    """What happens instead of pauses: functions, which are called once each."""
    left = collections.deque()

    def sleep(_):
        if threading.current_thread().name.endswith("_0") and left:
            left.popleft()()

    sleeping = types.SimpleNamespace(**{**vars(time), "sleep": sleep})
    monkeypatch.setattr(retries, "time", sleeping)
    return left


def wait_on_both(contexts, places, num_bytes=(0, 0)):
    with futures.ThreadPoolExecutor(2) as pool:
        done = [
            pool.submit(shared_disk_space.wait, *each)
            for each in zip(contexts, places, num_bytes, strict=True)
        ]
        return [each.result() for each in done]


def test_all_wait_for_the_one_whose_disk_is_full(tmp_path, contexts, pauses, caplog, monkeypatch):
    told = []
    monkeypatch.setattr(retries, "note", lambda _, text: told.append(text))
    is_full, looks = [True], [0, 0]

    def open_first():
        looks[0] += 1
        return tmp_path

    def open_second():
        looks[1] += 1
        if is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "scratch/part")
        return tmp_path

    pauses.append(is_full.clear)
    wait_on_both(contexts, [open_first, open_second])

    assert looks[0] == looks[1] >= 2  # Both looked again, as often as each other.
    assert [text for text in told if "scratch/part: No space left" in text]
    assert told[-1] == ""
    assert "saving a checkpoint together with others" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_what_was_saved_last_has_to_fit(tmp_path, contexts, pauses, monkeypatch, caplog):
    room = [shared_disk_space.SPARE_BYTES + 10]
    monkeypatch.setattr(shared_disk_space.shutil, "disk_usage", lambda _: _USAGE(room[-1]))
    pauses.append(lambda: room.append(shared_disk_space.SPARE_BYTES + 11))

    wait_on_both(contexts, [lambda: tmp_path] * 2, [0, 11])

    assert len(room) == 2
    assert "Free some space there" in caplog.text


def test_what_is_no_full_disk_is_no_reason_to_wait(contexts):
    def fail():
        raise errors.CheckpointError("no permission")

    with pytest.raises(errors.CheckpointError, match="no permission"):
        shared_disk_space.wait(contexts[0], fail, 0)


def test_one_process_alone_needs_no_agreement():
    shared_disk_space.wait(distributed_context.DistributedContext(), lambda: 1 / 0, 0)
