"""Small trainers and evaluators that the tests of the outer loop share."""

from typing import Any

import pytest
import tensorflow as tf

from quintain import orbit
from tests import event_files


class Counter(orbit.StandardTrainer, orbit.StandardEvaluator):
    """Adds up its data: `[]` int64 numbers 0, 1, 2, ... one per step."""

    def __init__(self, dataset, options=None, eval_options=None):
        self.strategy = tf.distribute.get_strategy()
        self.global_step = orbit.utils.create_global_step()
        self.total = tf.Variable(0, dtype=tf.int64)
        self.loop_total = tf.Variable(0, dtype=tf.int64)
        self.eval_total = tf.Variable(0, dtype=tf.int64)
        orbit.StandardTrainer.__init__(self, dataset, options)
        orbit.StandardEvaluator.__init__(self, tf.data.Dataset.range(3), eval_options)

    def train_step(self, iterator):
        # The step counter comes first and needs no data, as in real train steps.
        self.global_step.assign_add(1)
        number = next(iterator)
        self.total.assign_add(number)
        self.loop_total.assign_add(number)

    def train_loop_end(self):
        total = int(self.loop_total.numpy())
        self.loop_total.assign(0)
        return {"total": total}

    def eval_begin(self):
        self.eval_total.assign(0)

    def eval_step(self, iterator):
        self.eval_total.assign_add(next(iterator))

    def eval_end(self):
        return {"eval_total": self.eval_total.read_value()}


class RecordingReporter(orbit.Reporter):
    """Keeps every event as a tuple that starts with its name."""

    def __init__(self):
        self.events: list[tuple[Any, ...]] = []

    def on_train_begin(self, step, target_steps):
        self.events.append(("train_begin", step, target_steps))

    def on_train_loop(self, step, target_steps, output, loop_secs, num_steps):
        assert loop_secs > 0
        self.events.append(("train_loop", step, target_steps, dict(output), num_steps))

    def on_eval_begin(self, step, num_steps):
        self.events.append(("eval_begin", step, num_steps))

    def on_eval_step(self, done, num_steps):
        self.events.append(("eval_step", done, num_steps))

    def on_eval_end(self, step, output, secs):
        self.events.append(("eval_end", step, dict(output)))

    def on_checkpoint(self, step, path):
        self.events.append(("checkpoint", step))

    def on_restore(self, step, path):
        self.events.append(("restore", step))

    def on_train_end(self, step):
        self.events.append(("train_end", step))

    def on_message(self, text):
        self.events.append(("message", text))

    def named(self, *names):
        return [event for event in self.events if event[0] in names]


@pytest.fixture
def make_counter():
    """Returns a function that builds a `Counter` over 0, 1, 2, ... (without end by default)."""

    def make(num_examples=None, **kwargs):
        dataset = tf.data.Dataset.range(10**6 if num_examples is None else num_examples)
        return Counter(dataset.repeat() if num_examples is None else dataset, **kwargs)

    return make


@pytest.fixture
def reporter():
    return RecordingReporter()


@pytest.fixture
def read_scalars():
    """Returns a function from a directory to `{tag: [(step, value), ...]}` of its event files."""
    return event_files.read_scalars


@pytest.fixture
def make_manager(tmp_path):
    """Returns a function that builds a checkpoint manager for a `Counter` in `tmp_path/model`."""

    def make(counter, interval=None, **extra):
        checkpoint = tf.train.Checkpoint(
            global_step=counter.global_step,
            total=counter.total,
            loop_total=counter.loop_total,
            iterator=counter.ensure_train_iterator(),
            **extra,
        )
        return tf.train.CheckpointManager(
            checkpoint,
            str(tmp_path / "model"),
            max_to_keep=None,
            step_counter=counter.global_step,
            checkpoint_interval=interval,
        )

    return make


@pytest.fixture(autouse=True)
def _no_default_summary_step():
    """Takes back the default step that a controller sets, so that no test sees another's."""
    yield
    tf.summary.experimental.set_step(None)
