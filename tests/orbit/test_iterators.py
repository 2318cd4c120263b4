import gc
import threading
import weakref

import pytest
import tensorflow as tf

from quintain import orbit
from quintain.orbit import iterators

_PATIENCE_SECS = 60.0


class Blockade:
    """Datasets whose iterators can't be destroyed before `release`, as one whose thread sleeps.

    If something waits for that, a timer ends it, and `was_waited_for` says so.
    """

    def __init__(self):
        self._event = threading.Event()
        self._timer = threading.Timer(_PATIENCE_SECS, self._event.set)
        self._timer.start()

    def build(self):
        """Returns a dataset of 0, 1, ...; after 0, its iterators can't be destroyed."""
        return tf.data.Dataset.range(9).map(
            lambda number: tf.py_function(self._pass, [number], tf.int64), num_parallel_calls=2
        )

    def _pass(self, number):
        if number > 0:
            self._event.wait()
        return number

    @property
    def was_waited_for(self):
        return self._event.is_set()

    def release(self):
        self._timer.cancel()
        self._event.set()


@pytest.fixture
def blockade():
    blockade = Blockade()
    yield blockade
    blockade.release()


class Evaluator(orbit.StandardEvaluator):
    def eval_begin(self):
        return 0

    def eval_step(self, iterator):
        return next(iterator)

    def eval_reduce(self, state, step_outputs):
        return state + int(step_outputs)

    def eval_end(self, state):
        return {"sum": state}


@pytest.mark.parametrize(
    "distribute",
    [
        lambda dataset: dataset,
        tf.distribute.OneDeviceStrategy("CPU:0").experimental_distribute_dataset,
    ],
    ids=["plain", "distributed"],
)
def test_what_drops_an_iterator_does_not_wait_for_its_destruction(blockade, distribute):
    iterator = iterators.create(distribute(blockade.build()))
    first = int(next(iterator))

    del iterator

    assert first == 0
    assert not blockade.was_waited_for


@pytest.mark.slow
def test_the_garbage_collector_does_not_wait_for_the_destruction_of_an_iterator(blockade):
    cycle = {"iterator": iterators.create(blockade.build())}
    cycle["self"] = cycle
    next(cycle["iterator"])

    del cycle
    gc.collect()

    assert not blockade.was_waited_for


def test_no_evaluation_waits_for_the_destruction_of_the_iterator_of_the_last(blockade):
    evaluator = Evaluator(blockade.build())

    logs = [evaluator.evaluate(tf.constant(1)) for _ in range(2)]

    assert logs == [{"sum": 0}] * 2
    assert not blockade.was_waited_for


def test_no_recovery_waits_for_the_destruction_of_the_training_iterator(blockade, make_counter):
    trainer = make_counter()
    trainer.train_dataset = blockade.build()
    next(trainer.ensure_train_iterator())

    trainer.train_iterator = None

    assert int(next(trainer.ensure_train_iterator())) == 0
    assert not blockade.was_waited_for


def test_a_dropped_iterator_is_destroyed_once_nothing_refers_to_its_parts():
    iterator = iterators.create(tf.data.Dataset.range(2))
    (resource,) = tf.nest.flatten(iterator, expand_composites=True)
    destroyed = threading.Event()
    weakref.finalize(resource, destroyed.set)

    del iterator
    is_destroyed_early = destroyed.wait(0.2)
    del resource

    assert not is_destroyed_early
    assert destroyed.wait(_PATIENCE_SECS)


def test_elements_come_as_arrays_where_they_are_asked_for():
    dataset = tf.data.Dataset.from_tensor_slices({"text": ["a", "b"], "size": [1, 2]})

    assert list(iterators.create_numpy(dataset)) == list(dataset.as_numpy_iterator())


def test_anything_that_can_be_iterated_over_is_taken():
    assert list(iterators.create([1, 2])) == [1, 2]


@pytest.mark.slow
def test_no_thread_is_left_at_the_end_of_a_program_that_could_be_cut_off_within_tensorflow(
    run_program,
):
    assert run_program("iterators_at_exit.py", is_fresh=True) == ["MainThread"]
