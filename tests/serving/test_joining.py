import concurrent.futures
import threading

import pytest

from quintain.serving import batching, joining


@pytest.fixture
def seen():
    return []


@pytest.fixture
def joiner(seen):
    together = threading.Barrier(2)

    def run(texts, is_wanted):
        if "left" in texts:
            together.wait(10)
            while is_wanted():
                pass
            raise concurrent.futures.CancelledError
        if "bad" in texts:
            raise ValueError("bad")
        if "alone" not in texts:
            together.wait(10)
        return [2 * text for text in texts]

    made = joining.Joiner(
        run, max_requests=2, max_queue=5, observe=lambda size, secs: seen.append(size)
    )
    yield made
    made.close()


def test_requests_run_side_by_side(joiner, seen):
    futures = [joiner.submit(["a", "b"]), joiner.submit(["c"])]

    assert [future.result(10) for future in futures] == [["aa", "bb"], ["cc"]]
    assert sorted(seen) == [1, 2]
    assert joiner.num_waiting == 0


def test_a_failure_is_that_of_its_request_alone(joiner):
    with pytest.raises(ValueError, match="bad"):
        joiner.submit(["bad"]).result(10)

    assert joiner.submit(["alone"]).result(10) == ["alonealone"]
    assert joiner.num_waiting == 0


def test_too_many_texts_are_refused_and_late_ones_not_run(joiner, seen):
    held = joiner.submit(["a"])
    with pytest.raises(batching.QueueFullError, match="1 texts are waiting"):
        joiner.submit(["b"] * 5)
    late = joiner.submit(["alone"], timeout_secs=0.0)
    with pytest.raises(concurrent.futures.CancelledError):
        late.result(10)
    joiner.submit(["b"]).result(10)

    assert held.result(10) == ["aa"]
    assert seen == [1, 1]


def test_who_works_on_a_request_is_told_that_nobody_waits_any_more(joiner, seen):
    left = joiner.submit(["left"])
    other = joiner.submit(["a"])
    assert other.result(10) == ["aa"]  # Both have begun.

    left.cancel()

    with pytest.raises(concurrent.futures.CancelledError):
        left.result(10)
    assert joiner.submit(["alone"]).result(10) == ["alonealone"]
    assert seen == [1, 1]
    assert joiner.num_waiting == 0


def test_a_request_that_gets_no_thread_does_not_count_as_waiting(joiner, monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(joiner._threads, "submit", refuse)
    with pytest.raises(RuntimeError, match="new thread"):
        joiner.submit(["a"])
    assert joiner.num_waiting == 0


def test_nothing_is_taken_after_the_end(joiner):
    joiner.close()

    with pytest.raises(batching.QueueFullError, match="shut down"):
        joiner.submit(["a"])
