import threading

import pytest

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
