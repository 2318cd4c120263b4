import errno
import os
import socket
import threading
import time
import types

import pytest

from quintain import errors
from quintain.storage import retries


def test_call_that_is_never_answered_is_left():
    answered = threading.Event()

    with pytest.raises(TimeoutError, match=r"no answer within 0.05 s"):
        retries.call_within(answered.wait, 0.05)

    answered.set()


def test_call_that_is_answered_gives_its_answer_or_its_error():
    def fail():
        raise TimeoutError("its own")

    assert retries.call_within(lambda: 7, 5.0) == 7
    with pytest.raises(TimeoutError, match="its own"):
        retries.call_within(fail, 5.0)


@pytest.fixture
def pauses(monkeypatch):
    """Returns what is done in pauses, one for each; nothing is waited for."""
    acts = []

    def sleep(secs):
        del secs
        if acts:
            acts.pop(0)()

    monkeypatch.setattr(retries, "time", types.SimpleNamespace(**{**vars(time), "sleep": sleep}))
    return acts


@pytest.mark.parametrize(
    "full",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "ckpt/a"),
        OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), "ckpt/a"),
        RuntimeError("{{function}} ckpt/a; No space left on device [Op:SaveV2]"),
        errors.NoRoomError("ckpt/a: the disk of the master's machine is full"),
    ],
)
def test_a_full_disk_is_waited_for_and_named_with_its_machine(full, pauses):
    told, faults = [], [full, full]

    def save():
        if faults:
            raise faults.pop()
        return 7

    with retries.telling(told.append):
        assert retries.outlast_full_disks(save, doing="saving") == 7
    assert told[0].startswith(f"{socket.gethostname()}: saving: ")
    assert "ckpt/a" in told[0]
    assert told[1:] == [""]


def test_nothing_else_is_waited_for_as_a_full_disk_is(pauses):
    def fail():
        raise OSError(errno.EACCES, "no", "a")

    pauses.append(lambda: pytest.fail("It waits."))
    with pytest.raises(PermissionError):
        retries.outlast_full_disks(fail, doing="saving")


def test_what_others_still_wait_for_is_said_when_one_goes_on(pauses):
    told, faults = [], {"first": 2, "second": 1}

    def write(name):
        if faults[name]:
            faults[name] -= 1
            raise TimeoutError(f"no answer to {name}")

    # While the first one waits, the second one waits as well, and goes on.
    pauses.append(lambda: retries.call(lambda: write("second"), doing="2", patience_secs=9))
    with retries.telling(told.append):
        retries.call(lambda: write("first"), doing="1", patience_secs=9)
    first = "1: no answer to first"
    assert told == [first, first, first, ""]
