"""Snapshots of the state that an evaluation may change, so that it leaves no trace in training."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from quintain.checkpoints import checkpoint_state, cluster_checkpoints, task_state


class StateSnapshot:
    """State of a run that no training step owns, as it is when the snapshot is taken.

    It has what a checkpoint of the run would save: statistics, counters and random generators of
    models and tasks, and the random states of the process. Left out are trainable weights and
    optimizers, which only training steps change, and metrics but those of the training loop, to
    which one that was interrupted will add. TensorFlow copies a value only when its variable is
    next written to, so that frozen weights cost nothing.
    """

    def __init__(self, root: Any) -> None:
        """Takes the snapshot.

        Args:
            root: A model, or the checkpoint of a run. Variables that are made later are no part of
                the snapshot.
        """
        self._host = checkpoint_state.HostRandomState()
        self._host_state = self._host.serialize()
        parts = checkpoint_state.local_parts(_list_variables(root))
        self._values = [(part, part.read_value()) for part in parts]

    def restore(self) -> None:
        """Puts the state back."""
        for part, value in self._values:
            part.assign(value)
        self._host.deserialize(self._host_state)


@contextlib.contextmanager
def state_restored(root: Any) -> Iterator[None]:
    """Puts the state of a model or a checkpoint back after this block."""
    snapshot = StateSnapshot(root)
    try:
        yield
    finally:
        snapshot.restore()


def _list_variables(root: Any) -> list[Any]:
    variables: dict[int, Any] = {}
    seen: dict[int, Any] = {}
    pending = [root]
    while pending:
        part = pending.pop()
        if id(part) in seen or isinstance(part, keras.Metric | keras.optimizers.Optimizer):
            continue
        seen[id(part)] = part
        match part:
            case tf.Variable():
                variables[id(part)] = part
            case keras.Variable():
                if not part.trainable:
                    variables[id(part.value)] = part.value
            case cluster_checkpoints.PerWorkerState():
                pending.append(part.state)
            case checkpoint_state.VariablesState():
                pending += part.list_variables()
            case task_state.TaskVariables():
                pending += part.list_held()
            case _:
                if isinstance(part, keras.Layer):  # Keras puts none of them into checkpoints.
                    pending += [generator.state for generator in part._seed_generators]
                pending += tf.train.TrackableView.children(part).values()
    return list(variables.values())
