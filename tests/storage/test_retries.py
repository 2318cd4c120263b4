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
