"""Trains the Keras model of the training-step benchmark on a corpus, with `fit`.

KERAS_BACKEND=tensorflow|jax chooses the backend.
"""

import argparse
import collections
import os
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import batches
import corpus
import keras
import keras_run
import numpy as np
import tensorflow as tf
from keras import ops

SIZES = batches.SIZES
PAD_ID = batches.PAD_ID
BUCKETS = (8, 12, 16, 24, 32, 48, 64)
"""Lengths that batches are padded to: each is compiled once."""

NEVER = 1_000_000
"""Steps that no run reaches."""


class Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """The rates of `corpus.learning_rate`."""

    def __call__(self, step: Any) -> Any:
        """Returns the rate of a step, counted from 0."""
        step = ops.cast(step, "float32") + 1
        rise, fall = step / corpus.WARMUP_STEPS, ops.sqrt(corpus.WARMUP_STEPS / step)
        return corpus.PEAK_LEARNING_RATE * ops.minimum(rise, fall)

    def get_config(self) -> dict[str, Any]:
        """Returns nothing: it has no settings."""
        return {}


def masked_loss(labels: Any, logits: Any) -> Any:
    """Returns smoothed losses whose mean over all places is the mean over the tokens."""
    mask = ops.cast(ops.not_equal(labels, PAD_ID), "float32")
    return keras_run.smoothed_loss(labels, logits) * mask / ops.mean(mask)


def build_dataset(
    pairs: list[corpus.Pair], options: argparse.Namespace, counts: collections.deque[int]
) -> tf.data.Dataset:
    """Returns endless batches of one of a few lengths, whose tokens are noted in `counts`."""
    sources, targets = (tf.ragged.constant(side, tf.int32) for side in zip(*pairs, strict=True))
    data = tf.data.Dataset.range(len(pairs)).shuffle(len(pairs), seed=options.seed).repeat()
    data = data.map(lambda row: (sources[row], targets[row]))
    data = data.bucket_by_sequence_length(
        lambda source, target: tf.maximum(tf.shape(source)[0], tf.shape(target)[0]),
        # Exclusive, and padded to one less.
        bucket_boundaries=[length + 1 for length in BUCKETS],
        bucket_batch_sizes=[options.batch_tokens // 2 // length for length in (*BUCKETS, 64)],
        pad_to_bucket_boundary=True,
        drop_remainder=True,
    )

    def note(count: np.ndarray) -> np.ndarray:
        counts.append(int(count))
        return count

    def prepare(source: tf.Tensor, target: tf.Tensor) -> Any:
        count = tf.math.count_nonzero(source) + tf.math.count_nonzero(target)
        with tf.control_dependencies([tf.numpy_function(note, [count], tf.int64)]):
            return (source, tf.pad(target, [[0, 0], [1, 0]])[:, :-1]), tf.identity(target)

    return data.map(prepare).prefetch(2)


class StopInTime(keras.callbacks.Callback):
    """Evaluates on the way, and ends the training when the time is over."""

    def __init__(self, run: corpus.Run, counts: collections.deque[int]) -> None:
        """Stores what counts."""
        super().__init__()
        self._run = run
        self._counts = counts

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Counts a step, when it is done."""
        float((logs or {})["loss"])
        if self._run.count(self._counts.popleft()):
            self.model.stop_training = True


def build_run(options: argparse.Namespace, model: keras.Model) -> corpus.Run:
    """Returns the run, which evaluates the model."""

    def evaluate(sources: np.ndarray, targets: np.ndarray) -> float:
        if keras.backend.backend() == "jax":
            model.jax_state_sync()
        shifted = np.pad(targets, [(0, 0), (1, 0)])[:, :-1]
        logits = ops.convert_to_numpy(model([sources, shifted], training=False))
        logits = logits - np.max(logits, -1, keepdims=True)
        log_probs = logits - np.log(np.sum(np.exp(logits), -1, keepdims=True))
        right = np.take_along_axis(log_probs, targets[..., None], -1)[..., 0]
        return -float(np.sum(right * (targets != PAD_ID)))

    return corpus.Run(options, evaluate, translate=None)


def main() -> None:
    """Trains until the time is over."""
    options = corpus.parse_options()
    if options.precision == "bfloat16":
        keras.config.set_dtype_policy("mixed_bfloat16")
    keras.utils.set_random_seed(options.seed)
    model = keras_run.build_model(corpus.MAX_LENGTH, is_padded=True)
    optimizer = keras.optimizers.Adam(
        Schedule(), beta_2=0.98, epsilon=1e-9, global_clipnorm=corpus.CLIP_NORM
    )
    jit_compile = False if options.nojit else "auto"
    model.compile(optimizer, loss=masked_loss, jit_compile=jit_compile)
    counts = collections.deque[int]()
    data = build_dataset(corpus.read_pairs(options, "train"), options, counts)
    callbacks = [StopInTime(build_run(options, model), counts)]
    model.fit(data, steps_per_epoch=NEVER, callbacks=callbacks, verbose=0)


if __name__ == "__main__":
    main()
