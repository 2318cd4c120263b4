"""Callers share searches, and each gets its own results."""

import concurrent.futures
import itertools
import threading

import numpy as np
import pytest

from quintain.kernels import library
from quintain.nlp.modeling.models import seq2seq_transformer, transformer_stacks
from quintain.nlp.modeling.ops import decoding
from quintain.serving import search_pool

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _needs_native_code():
    if reason := library.find_reason():
        pytest.skip(reason)


@pytest.fixture
def pool():
    layers = {"num_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = seq2seq_transformer.Seq2SeqTransformer(
        40,
        16,
        encoder_layer=transformer_stacks.TransformerEncoder(**layers),
        decoder_layer=transformer_stacks.TransformerDecoder(**layers),
        extra_decode_length=20,
    )
    return search_pool.SearchPool(model, decoding.DecodingOptions())


def draw(seed, count):
    generator = np.random.default_rng(seed)
    return [
        generator.integers(3, 40, size).astype(np.int32) for size in generator.integers(1, 9, count)
    ]


def describe(found):
    return [([ids.tolist() for ids in one.ids], one.scores) for one in found]


def assert_rests(pool):
    while pool._num_workers:  # They end after the last answer.
        pass
    assert pool._num_left == 0


def test_requests_that_join_each_other_are_answered_as_if_alone(pool):
    requests = [draw(seed, count) for seed, count in enumerate([1, 40, 1, 7, 120, 2, 1, 30])]
    alone = [describe(pool.run(sources, [None] * len(sources), 64)) for sources in requests]

    with concurrent.futures.ThreadPoolExecutor(len(requests)) as threads:
        jobs = [threads.submit(pool.run, sources, [None] * len(sources), 4) for sources in requests]
        together = [describe(job.result()) for job in jobs]

    assert together == alone
    assert_rests(pool)


def test_a_large_request_does_not_hold_up_a_small_one(pool):
    order = []

    def run(name, sources):
        pool.run(sources, [None] * len(sources), 2)
        order.append(name)

    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        large = threads.submit(run, "large", draw(0, 2000))
        while not pool._num_left:
            assert not large.done()
        threads.submit(run, "small", draw(1, 2)).result()
        large.result()

    assert order == ["small", "large"]


def test_what_goes_wrong_reaches_who_waits(pool, monkeypatch):
    def fail(*_, **__):
        raise MemoryError("no room")

    monkeypatch.setattr(search_pool.native_search, "limit_length", fail)

    with pytest.raises(MemoryError, match="no room"):
        pool.run(draw(0, 5), [None] * 5, 4)

    monkeypatch.undo()
    assert len(pool.run(draw(0, 5), [None] * 5, 4)) == 5


def test_what_nobody_waits_for_any_more_is_left_out(pool):
    asked = itertools.count()

    with pytest.raises(concurrent.futures.CancelledError):
        pool.run(draw(0, 5000), [None] * 5000, 4, is_wanted=lambda: next(asked) < 10)

    # It would have been asked for every sentence.
    assert next(asked) < 100
    assert len(pool.run(draw(0, 5), [None] * 5, 4)) == 5
    assert_rests(pool)


def test_others_are_answered_beside_what_is_left_out(pool):
    sources = draw(1, 40)
    alone = describe(pool.run(sources, [None] * len(sources), 4))
    asked = itertools.count()

    def leave():
        with pytest.raises(concurrent.futures.CancelledError):
            pool.run(draw(0, 5000), [None] * 5000, 4, is_wanted=lambda: next(asked) < 20)

    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        left = threads.submit(leave)
        together = describe(threads.submit(pool.run, sources, [None] * 40, 4).result())
        left.result()

    assert together == alone
    assert_rests(pool)


def run_apart(pool, count):
    """Returns the error of a request, or None; it fails if nobody tells who waits."""
    found = []

    def run():
        try:
            pool.run(draw(0, count), [None] * count, 4)
        except (MemoryError, RuntimeError) as error:
            found.append(error)
        else:
            found.append(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    return found[0]


def test_what_goes_wrong_with_the_last_sentence_of_a_request_reaches_who_waits(pool, monkeypatch):
    def fail(*_, **__):
        raise MemoryError("no room")

    monkeypatch.setattr(search_pool.native_search, "limit_length", fail)
    assert isinstance(run_apart(pool, 1), MemoryError)
    monkeypatch.undo()
    assert run_apart(pool, 1) is None
    assert_rests(pool)


def test_a_system_without_threads_keeps_nobody_waiting(pool, monkeypatch):
    class NoThread(threading.Thread):
        def start(self):
            raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(search_pool.threading, "Thread", NoThread)
        with pytest.raises(RuntimeError, match="new thread"):
            pool.run(draw(0, 3), [None] * 3, 4)
    assert run_apart(pool, 3) is None
    assert_rests(pool)
