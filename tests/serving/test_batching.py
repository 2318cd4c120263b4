import concurrent.futures
import threading

import pytest

from quintain.serving import batching


class Model:
    """Doubles numbers once `is_open` is set, and keeps what it was given."""

    def __init__(self):
        self.batches = []
        self.is_open = threading.Event()
        self.has_begun = threading.Event()

    def run(self, texts):
        self.has_begun.set()
        assert self.is_open.wait(10)
        self.batches.append(list(texts))
        if "bad" in texts:
            raise ValueError("bad")
        return [2 * text for text in texts]


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def batcher(model):
    made = batching.Batcher(model.run, max_batch_size=4, max_delay_secs=0.0, max_queue=10)
    yield made
    model.is_open.set()
    made.close()


def hold(batcher, model):
    """Makes the model busy, so that what comes next has to wait."""
    first = batcher.submit([0])
    assert model.has_begun.wait(10)
    return first


def test_what_waits_shares_batches_and_requests_stay_whole(batcher, model):
    first = hold(batcher, model)
    futures = [batcher.submit(texts) for texts in ([1, 2], [3], [4, 5], [6])]
    model.is_open.set()
    assert first.result(10) == [0]
    assert [future.result(10) for future in futures] == [[2, 4], [6], [8, 10], [12]]
    assert model.batches == [[0], [1, 2, 3], [4, 5, 6]]


def test_a_request_that_is_larger_than_a_batch_is_one(batcher, model):
    model.is_open.set()
    assert batcher.submit([1] * 7).result(10) == [2] * 7
    assert model.batches == [[1] * 7]


def test_a_text_waits_for_others(model):
    model.is_open.set()
    batcher = batching.Batcher(model.run, max_batch_size=2, max_delay_secs=30.0, max_queue=10)
    futures = [batcher.submit([1]), batcher.submit([2])]
    assert [future.result(10) for future in futures] == [[2], [4]]
    assert model.batches == [[1, 2]]
    batcher.close()


def test_too_many_texts_are_refused_until_there_is_room(batcher, model):
    first = hold(batcher, model)
    second = batcher.submit([1] * 9)
    with pytest.raises(batching.QueueFullError, match="10 texts are waiting, and at most 10 may"):
        batcher.submit([1])
    model.is_open.set()
    assert len(first.result(10) + second.result(10)) == 10
    concurrent.futures.wait([first, second])
    while batcher.num_waiting:
        pass
    assert batcher.submit([1]).result(10) == [2]


def test_what_fails_fails_alone(batcher, model):
    first = hold(batcher, model)
    good, bad, other = (batcher.submit([text]) for text in (1, "bad", 2))
    model.is_open.set()
    assert (first.result(10), good.result(10), other.result(10)) == ([0], [2], [4])
    with pytest.raises(ValueError, match="bad"):
        bad.result(10)


def test_what_nobody_waits_for_any_more_is_not_run(batcher, model):
    first = hold(batcher, model)
    late = batcher.submit([1], timeout_secs=0.0)
    model.is_open.set()
    first.result(10)
    with pytest.raises(concurrent.futures.CancelledError):
        late.result(10)
    assert batcher.submit([3]).result(10) == [6]
    assert model.batches == [[0], [3]]


def test_closing_answers_what_waits_and_refuses_the_rest(batcher, model):
    first = hold(batcher, model)
    second = batcher.submit([1])
    closer = threading.Thread(target=batcher.close)
    closer.start()
    model.is_open.set()
    closer.join(10)
    assert (first.result(0), second.result(0)) == ([0], [2])
    with pytest.raises(batching.QueueFullError, match="shut down"):
        batcher.submit([1])


def test_sizes_and_times_of_batches_are_told(model):
    seen = []
    model.is_open.set()
    batcher = batching.Batcher(
        model.run,
        max_batch_size=4,
        max_delay_secs=0.0,
        max_queue=10,
        observe=lambda size, secs: seen.append((size, secs >= 0)),
    )
    batcher.submit([1, 2, 3]).result(10)
    batcher.close()
    assert seen == [(3, True)]


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

    made = batching.Joiner(
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
