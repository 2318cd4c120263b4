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

    with retries.wait_listener(told.append):
        assert retries.outlast_full_disks(save, doing="saving") == 7
    assert told[0].startswith(f"{socket.gethostname()}: saving: ")
    assert "ckpt/a" in told[0]
    assert told[1:] == [""]


def test_a_full_disk_is_given_up_where_the_waiter_may_be_what_fills_it(pauses):
    def fail():
        raise errors.NoRoomError("cache/a: full")

    with pytest.raises(errors.NoRoomError):
        retries.outlast_full_disks(fail, doing="fetching", patience_secs=0.0)


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
    with retries.wait_listener(told.append):
        retries.call(lambda: write("first"), doing="1", patience_secs=9)
    first = "1: no answer to first"
    assert told == [first, first, first, ""]


def caused_by(error, cause):
    error.__context__ = cause
    return error


def with_fields(error, **fields):
    for name, value in fields.items():
        setattr(error, name, value)
    return error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (OSError("Forbidden: https://storage\ndenied"), 403),
        (OSError(5, "Forbidden: a file"), None),
        (with_fields(Exception("busy"), status_code=503), 503),
        (with_fields(Exception("busy"), code="429"), 429),
        (with_fields(Exception("busy"), status=401), 401),
        (
            caused_by(
                OSError("busy"),
                with_fields(Exception("x"), response={"ResponseMetadata": {"HTTPStatusCode": 503}}),
            ),
            503,
        ),
        (ValueError("nothing"), None),
    ],
)
def test_status_of_an_answer_is_found_in_what_each_client_says(error, status):
    assert retries.find_status(error) == status
    assert retries.is_about_credentials(error) == (status in (401, 403))
    assert retries.is_refusal(error) == (status in (401, 403))


@pytest.mark.parametrize("code", ["ContainerNotFound", "ContainerBeingDeleted"])
def test_container_that_goes_is_waited_for_whatever_it_is_called(code):
    error = caused_by(FileExistsError("a"), with_fields(Exception("x"), error_code=code))

    assert retries.is_lasting(error)
    assert retries.is_refusal(error)


def test_request_that_is_wrong_is_not_repeated_for_long(replace_sleep):
    remote = type("HttpError", (Exception,), {"__module__": "gcsfs.retry"})
    waits = []
    replace_sleep(retries, waits.append)

    def fail():
        raise with_fields(remote("bad"), code=400)

    with pytest.raises(remote):
        retries.call(fail, doing="a", patience_secs=600.0)

    assert len(waits) == 2
