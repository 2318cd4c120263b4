"""Checkpoints of a cluster: every worker gives its part, the chief writes, all restore the same."""

import json
import logging
import threading
from collections.abc import Callable
from typing import Any, Final

import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.checkpoints import checkpoint_state, checkpoints
from quintain.orbit import cluster

_MAGIC: Final = b"quintain-workers\n"

logger = logging.getLogger(__name__)


class ClusterCheckpointManager(checkpoints.CheckpointManager):
    """Keeps the checkpoints of a run that several workers train together.

    All workers must call each method at the same point. Values that are spread over the workers are
    collected from all of them; only the chief touches files, except to read what is restored. On a
    single worker it does what `CheckpointManager` does.
    """

    def __init__(self, strategy: tf.distribute.Strategy, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._strategy = strategy

    @override
    def sync(self) -> None:
        """Waits until the chief has written every checkpoint.

        Raises:
            CheckpointError: On all workers, if the file could not be written.
        """
        self._on_chief(super().sync)

    @override
    def _is_saved(self, path: str, step: int) -> bool:
        if cluster.num_workers(self._strategy) == 1:
            return super()._is_saved(path, step)
        return step == self._last_step

    @override
    def _start_writing(self, write: Callable[[], None]) -> None:
        if cluster.num_workers(self._strategy) == 1:
            super()._start_writing(write)
            return
        if cluster.is_chief(self._strategy):
            self._writer = threading.Thread(target=write, name="checkpoint-writer")
            self._writer.start()
        if not self._enable_async:
            self.sync()

    @override
    def _find_newest(self) -> str | None:
        path: str | None = self._on_chief(super()._find_newest)
        return path

    def _on_chief(self, fn: Callable[[], Any]) -> Any:
        """Returns on all workers what `fn` returns on the chief, or raises what it raises."""
        if cluster.num_workers(self._strategy) == 1:
            return fn()
        result: dict[str, Any] = {}
        if cluster.is_chief(self._strategy):
            try:
                result = {"value": fn()}
            except errors.CheckpointError as error:
                result = {"error": str(error)}
        result = cluster.from_chief(self._strategy, result)
        if "error" in result:
            raise errors.CheckpointError(result["error"])
        return result["value"]


class PerWorkerState(checkpoint_state.NamedState):
    """A state of which every worker has its own, all of them together in one checkpoint."""

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        state: tf.train.experimental.PythonState,
        restore_foreign: Callable[[bytes], None] | None = None,
        *,
        warns: bool = False,
    ) -> None:
        """Stores the state of this worker.

        Args:
            strategy: Strategy of the cluster.
            state: This worker's own state.
            restore_foreign: Takes the place of `state.deserialize` where the checkpoint is of
                another number of workers; it gets the state of the first.
            warns: Whether to say so then, which one of a training's states does for all.
        """
        self._strategy = strategy
        self.state = state
        self._warns = warns
        self._restore_foreign = restore_foreign or state.deserialize

    @override
    def list_names(self) -> list[str]:
        if isinstance(self.state, checkpoint_state.NamedState):
            return self.state.list_names()
        return []

    @override
    def serialize(self) -> bytes:
        """Returns the states of all workers; the bare state if there is only one."""
        parts = cluster.gather(self._strategy, self.state.serialize())
        if len(parts) == 1:
            return parts[0]
        return _MAGIC + json.dumps([len(part) for part in parts]).encode() + b"\n" + b"".join(parts)

    @override
    def deserialize(self, string_value: bytes) -> None:
        parts = _split(string_value)
        if len(parts) == cluster.num_workers(self._strategy):
            self.state.deserialize(parts[cluster.worker_index(self._strategy)])
            return
        if self._warns:
            logger.warning(
                "The checkpoint is of %d workers, now there are %d: this run is not an exact "
                "continuation.",
                len(parts),
                cluster.num_workers(self._strategy),
            )
        self._restore_foreign(parts[0])


class SharedState(PerWorkerState):
    """A state that all workers have alike, however many there are; the chief's is saved."""

    def __init__(
        self, strategy: tf.distribute.Strategy, state: Any, *args: Any, **kwargs: Any
    ) -> None:
        if hasattr(state, "list_variables"):
            state = checkpoint_state.SharedVariablesState(state.list_variables, state.list_names)
        super().__init__(strategy, state, *args, **kwargs)

    @override
    def serialize(self) -> bytes:
        """Returns the bare state."""
        return self.state.serialize()

    @override
    def deserialize(self, string_value: bytes) -> None:
        self.state.deserialize(_split(string_value)[0])


def _split(data: bytes) -> list[bytes]:
    """Returns the states of the workers that are in a checkpoint."""
    if not data.startswith(_MAGIC):
        return [data]
    header, _, rest = data[len(_MAGIC) :].partition(b"\n")
    parts, start = [], 0
    for size in json.loads(header):
        parts.append(rest[start : start + size])
        start += size
    return parts
