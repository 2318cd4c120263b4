import threading

import pytest

from quintain.trials.process import background_calls


def test_nobody_waits_for_a_call_but_who_asks_for_its_result():
    release = threading.Event()

    future = background_calls.start(lambda: release.wait() and 3)
    was_done = future.done()
    release.set()

    assert not was_done
    assert future.result() == 3


def test_what_a_call_raises_is_raised_where_its_result_is_asked_for():
    future = background_calls.start(lambda: int("x"))

    with pytest.raises(ValueError, match="'x'"):
        future.result()
