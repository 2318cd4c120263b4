"""Warm-up of TensorFlow in a process, before it is forked.

Much of a short trial's processor time is such work: TensorFlow looks through all its kernels for
each kind of operation, oneDNN writes its machine code, Python finds out which types its
instructions meet. `warm_up` trains and saves a tiny model, and takes apart what a copy must not
have: the threads, which it would miss, and whatever a program could notice. A copy begins with a
TensorFlow that has computed nothing: it can still be told its threads and devices, and it computes
the same bits.
"""

import contextlib
import ctypes
import gc
import os
import pathlib
from collections.abc import Iterator
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf
from keras.src.backend.common import global_state
from keras.src.random import seed_generator
from tensorflow.python import pywrap_tfe
from tensorflow.python.distribute import distribute_lib
from tensorflow.python.eager import context as eager_context
from tensorflow.python.framework import ops

from quintain.input.diagnosis import pipeline_inspection
from quintain.trials import trial_context
from quintain.trials.keras import keras_data, keras_replicas, keras_steps, keras_variables

_ACCELERATORS: Final = ("accel", "dri", "dxg", "kfd", "nvidia", "vfio")
"""How the names of their devices begin."""

_MEMORY: Final = "ram://quintain"
"""A directory of TensorFlow's file system in memory: nothing is left if the process is killed."""

_LIBRARY: Final = "libtensorflow_framework.so.2"
_SHARES_THREADS: Final = "_ZN10tensorflow11LocalDevice22use_global_threadpool_E"
"""TensorFlow's variable for whether devices compute in threads of the process, which never end."""


def warm_up() -> None:
    """Computes, and leaves nothing of it that a copy of this process could notice.

    Nothing is done where TensorFlow would look at an accelerator, which copies could not use then,
    and where Keras computes with another library.

    Raises:
        AttributeError: If TensorFlow or Keras keep their state elsewhere than in the versions that
            this was written for.
        ValueError: If TensorFlow's library is another one.
    """
    if any(name.startswith(_ACCELERATORS) for name in os.listdir("/dev")):
        return
    if keras.backend.backend() == "tensorflow":
        with _temporary_context(), _library_state_preserved():
            _make_data()
            _save(*_train())


@contextlib.contextmanager
def _temporary_context() -> Iterator[None]:
    """Computes in a context of its own, and ends it with all its threads.

    The one that programs have settings in is not touched.
    """
    library = ctypes.CDLL(str(pathlib.Path(tf.__file__).with_name(_LIBRARY)))
    shares_threads = ctypes.c_bool.in_dll(library, _SHARES_THREADS)
    former, was_shared = eager_context._context, shares_threads.value
    context = eager_context.Context()
    # Numbers that are set keep TensorFlow from reading variables that it reads only once.
    context.intra_op_parallelism_threads = context.inter_op_parallelism_threads = 1
    eager_context._set_context(context)
    shares_threads.value = False
    try:
        context.ensure_initialized()
        yield
    finally:
        gc.collect()
        # What is kept by device or by the context's address would meet another one in a copy.
        context._clear_caches()
        eager_context._device_parsing_cache.clear()
        handle = context._context_handle
        context.ensure_uninitialized()
        eager_context._context = None
        if former is not None:
            eager_context._set_context(former)
        shares_threads.value = was_shared
        if handle is not None:
            _delete(handle)


def _delete(handle: Any) -> None:
    """Deletes a context of TensorFlow.

    Each operation leaves a reference to the handle behind (TensorFlow 2.21), so that the last one
    would not delete it; with one more, none ever does, and this can.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))
    pywrap_tfe.TFE_DeleteContext(handle)


@contextlib.contextmanager
def _library_state_preserved() -> Iterator[None]:
    """Puts back what Python's side of Keras and TensorFlow counts, names and remembers."""
    trackers = [vars(global_state.GLOBAL_STATE_TRACKER), vars(global_state.GLOBAL_SETTINGS_TRACKER)]
    names = [*trackers, ops.gradient_registry._registry, distribute_lib._defaults]
    kept = [dict(each) for each in names]
    graphs = ops._default_graph_stack
    graph = graphs._global_default_graph
    numpy = np.random.get_state()  # Python's own is set anew in each copy.
    try:
        yield
    finally:
        for each, content in zip(names, kept, strict=True):
            each.clear()
            each.update(content)
        graphs._global_default_graph = graph
        np.random.set_state(numpy)


class _Batches:
    """Training and validation data without a thread, as iterators over datasets start one."""

    def __init__(self, *batch: tf.Tensor) -> None:
        self.iterator = self
        self.position = 0
        self._batch = batch

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> tuple[tf.Tensor, ...]:
        return self._batch

    def __next__(self) -> tuple[tf.Tensor, ...]:
        return tuple(map(tf.identity, self._batch))

    def on_epoch_end(self) -> None:
        """Does nothing."""


def _make_data() -> None:
    """Makes a dataset and looks into it, as trials do; an iterator would start a thread."""
    examples = np.zeros((11, 5), "float32"), np.zeros((11,), "int64")
    data = tf.data.Dataset.from_tensor_slices(examples).shuffle(11, seed=1).batch(3)
    keras_data.as_batches(data, lambda: 3, trial_context.TrialContext.from_config({}), "training")
    pipeline_inspection.inspect(data.repeat())


def _train() -> tuple[keras.Model, keras_steps.Steps]:
    """Trains and validates as a small trial does, in shapes that hardly any has."""
    keras.utils.set_random_seed(1)
    seed_generator.global_seed_generator()
    model = keras.Sequential(
        [
            keras.layers.Input((5,)),
            keras.layers.Dense(7, activation="relu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(3),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(0.1),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    replicas = keras_replicas.Replicas(trial_context.TrialContext.from_config({}))
    steps = keras_steps.Steps(model, jit_compile=False, replicas=replicas)
    batch = tf.zeros((11, 5)), tf.zeros((11,), tf.int64)
    steps.build(tuple(tf.TensorSpec((None, *part.shape[1:]), part.dtype) for part in batch))
    data: Any = _Batches(*batch)
    steps.train_loop(data, 2)
    steps.train(batch)
    steps.evaluate(data)
    return model, steps


def _save(model: keras.Model, steps: keras_steps.Steps) -> None:
    """Writes what a trial's checkpoint has of a model, into memory."""
    weights = [variable.value for variable in (*model.variables, *model.optimizer.variables)]
    keras_variables.write(f"{_MEMORY}/variables", {"model": weights, "random": [steps.step]})
    model.save(f"{_MEMORY}/model.keras")
    tf.io.gfile.rmtree(_MEMORY)
