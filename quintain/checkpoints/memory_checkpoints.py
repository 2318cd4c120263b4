"""Checkpoints in shared memory, for a standby that takes over from a killed training process.

They cost so little that one can be saved every few seconds. Two are kept, so that a kill during a
save leaves the other.
"""

import mmap
import os
import pickle
import struct
import time
from collections.abc import Mapping
from concurrent import futures
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from quintain.checkpoints import auto_interval, checkpoint_fit, checkpoint_state, task_state

EXPECTED_SECS: Final = 600.0
"""Seconds between two interruptions of a run that has a standby and was not interrupted yet."""

_HEADER: Final = struct.Struct("<QQQ")
"""Number of the checkpoint, 0 while it is written; place and length of its index."""
_ALIGNMENT: Final = 64
_NUM_THREADS: Final = 2


class SharedMemory:
    """Two anonymous files, which forks share and which vanish with the last of the processes."""

    def __init__(self) -> None:
        self._files = [os.memfd_create("quintain-checkpoint") for _ in range(2)]

    def write(self, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Writes a checkpoint in place of the older one.

        Args:
            facts: Plain values; `step` among them.
            arrays: Arrays by name.
        """
        numbers = self._read_numbers()
        file = self._files[numbers.index(min(numbers))]
        os.pwrite(file, bytes(_HEADER.size), 0)
        places, end = {}, _ALIGNMENT
        for name, array in arrays.items():
            places[name] = (end, array.dtype, array.shape)
            end += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
        with futures.ThreadPoolExecutor(_NUM_THREADS) as threads:
            for _ in threads.map(lambda name: _write(file, arrays[name], places[name][0]), arrays):
                pass
        index = pickle.dumps((dict(facts), places))
        os.pwrite(file, index, end)
        os.pwrite(file, _HEADER.pack(max(numbers) + 1, end, len(index)), 0)

    def read(self) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
        """Returns facts and arrays of the newest checkpoint that is whole; None without one."""
        file = self._find_newest()
        if file is None:
            return None
        facts, places = _read_index(file)
        with mmap.mmap(file, 0, prot=mmap.PROT_READ) as content:
            # Copies: TensorFlow may use an array's memory for a variable.
            arrays = {
                name: np.ndarray(shape, dtype, content, offset).copy()
                for name, (offset, dtype, shape) in places.items()
            }
        return facts, arrays

    def find_step(self) -> int:
        """Returns the step of the newest checkpoint; -1 without one."""
        file = self._find_newest()
        step: int = -1 if file is None else _read_index(file)[0]["step"]
        return step

    def _find_newest(self) -> int | None:
        """Returns the file of the newest checkpoint that is whole; None without one."""
        number, file = max(zip(self._read_numbers(), self._files, strict=True))
        return file if number else None

    def _read_numbers(self) -> list[int]:
        headers = [os.pread(file, _HEADER.size, 0) or bytes(_HEADER.size) for file in self._files]
        return [_HEADER.unpack(header)[0] for header in headers]


def _read_index(file: int) -> Any:
    _, start, length = _HEADER.unpack(os.pread(file, _HEADER.size, 0))
    return pickle.loads(os.pread(file, length, start))


def _write(file: int, array: np.ndarray, offset: int) -> None:
    rest = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    while rest:  # The system writes at most 2 GB at once.
        written = os.pwrite(file, rest, offset)
        rest, offset = rest[written:], offset + written


class MemoryCheckpoints:
    """Train action that keeps the state of a run in shared memory, as often as it is worth it.

    The state is that of the run's checkpoints, whose variables and states are looked up once.

    Args:
        memory: Where it is kept.
        checkpoint: The objects to save.
        model_dir: Directory of the run.
        step_counter: Its step.
    """

    def __init__(
        self,
        memory: SharedMemory,
        checkpoint: tf.train.Checkpoint,
        model_dir: str,
        step_counter: tf.Variable,
    ) -> None:
        self._memory = memory
        self._checkpoint = checkpoint
        self._model_dir = model_dir
        self._step_counter = step_counter
        self._interval = auto_interval.AutoInterval(EXPECTED_SECS)
        self._last_step: int | None = None
        self._parts: dict[str, tf.Variable] = {}
        self._states: dict[str, tf.train.experimental.PythonState] = {}
        self._is_known = False
        self._is_possible = True
        self.is_restored = False
        """Whether the run goes on from here."""

    def expect_interruptions(self, start_times: list[float]) -> None:
        """Takes note of when the processes of the run were started, in seconds."""
        secs = auto_interval.find_secs_between(start_times, EXPECTED_SECS)
        self._interval = auto_interval.AutoInterval(secs)

    def prepare(self) -> None:
        """Looks up what a checkpoint of the run holds: variables of all replicas, and states."""
        if self._is_known:
            return
        with task_state.lookups_cached():
            tensors, _, registered, _ = self._checkpoint._saver._gather_serialized_tensors()
        self._parts, self._states, self._is_known = {}, {}, True
        # A model that grows has other variables at every stage.
        is_growing = isinstance(self._checkpoint, checkpoint_fit.HookedCheckpoint)
        self._is_possible = not registered and not is_growing
        for holder, values in tensors.items():
            item = getattr(holder, "obj", holder)  # What a wrapper of TensorFlow's stands for.
            name = next((key for key in values), "")
            if isinstance(item, tf.train.experimental.PythonState):
                self._states[name] = item
            elif isinstance(item, keras.Variable | tf.Variable):
                for index, part in enumerate(checkpoint_state.local_parts([item])):
                    self._parts[f"{name} {index}"] = part
                    self._is_possible &= part.dtype != tf.string
            elif values and item is not None:
                self._is_possible = False

    def __call__(self, output: Any) -> None:
        """Saves if it is time, or if the run went back to an earlier step."""
        del output
        step, last = int(self._step_counter.numpy()), self._last_step
        num_steps = self._interval.find_steps(step)
        if last is None or not last <= step < last + num_steps:
            self._save(step)

    def refresh(self, output: Any) -> None:
        """Looks the variables up anew; an evaluation, whose action this is, may make some."""
        del output
        self._is_known = False

    def restore(self, oldest_step: int) -> bool:
        """Restores the newest checkpoint, if it is of this run, not too old, and fits.

        Args:
            oldest_step: Smallest step that is wanted.

        Returns:
            Whether it did.
        """
        found = self._memory.read() if self._memory.find_step() >= oldest_step else None
        if found is None or found[0]["model_dir"] != self._model_dir:
            return False
        facts, arrays = found
        self.prepare()
        shapes = {name: tuple(part.shape) for name, part in self._parts.items()}
        if {name: array.shape for name, array in arrays.items()} != shapes:
            return False
        if facts["states"].keys() != self._states.keys():
            return False
        for name, part in self._parts.items():
            part.assign(arrays[name])
        for name, state in self._states.items():
            state.deserialize(facts["states"][name])
        self._last_step = facts["step"]
        self.is_restored = True
        return True

    def _save(self, step: int) -> None:
        self.prepare()
        if not self._is_possible:
            return
        start = time.monotonic()
        arrays = {
            # The variables' own memory, which their method `numpy` would copy.
            name: np.asarray(tf.raw_ops.ReadVariableOp(resource=part.handle, dtype=part.dtype))
            for name, part in self._parts.items()
        }
        states = {name: state.serialize() for name, state in self._states.items()}
        self._memory.write({"step": step, "model_dir": self._model_dir, "states": states}, arrays)
        self._last_step = step
        self._interval.note_cost(time.monotonic() - start)
