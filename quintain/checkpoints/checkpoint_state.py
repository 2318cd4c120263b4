"""The parts of a checkpoint that are not variables: data position and host-side arrays.

Both are `tf.train.experimental.PythonState`, so that they live in the same file as the weights and
are written and restored with them.
"""

import io
import json
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.ops import stateful_random_ops
from typing_extensions import override

from quintain import errors
from quintain.files import literal_paths
from quintain.input import file_marks
from quintain.input.diagnosis import pipeline_inspection

_FAIL_ON_EXTERNAL_STATE: Final = 2

logger = logging.getLogger(__name__)


TASK_VARIABLES: Final = "task_variables"
"""Name of the variables in a checkpoint that a task holds."""

TASK_RANDOM_STATE: Final = "task_random_state"
"""Name of the random states in a checkpoint that a task holds."""


class NamedState(tf.train.experimental.PythonState):
    """A state that can say what it holds, to tell what a checkpoint without it lacks."""

    def list_names(self) -> list[str]:
        """Returns the names of what is held; nothing unless overridden."""
        return []


class ArrayState(NamedState):
    """Named NumPy arrays that travel in a checkpoint.

    Example:
        >>> state = {"count": np.array(3)}
        >>> saved = ArrayState(lambda: state, state.update).serialize()
        >>> state["count"] = np.array(5)
        >>> ArrayState(lambda: state, state.update).deserialize(saved)
        >>> int(state["count"])
        3
    """

    def __init__(
        self,
        read: Callable[[], Mapping[str, np.ndarray]],
        write: Callable[[Mapping[str, np.ndarray]], Any],
    ) -> None:
        """Stores how the arrays are read when saving and written when restoring."""
        self._read = read
        self._write = write

    @override
    def serialize(self) -> bytes:
        buffer = io.BytesIO()
        arrays: dict[str, Any] = dict(self._read())
        np.savez(buffer, **arrays)
        return buffer.getvalue()

    @override
    def deserialize(self, string_value: bytes) -> None:
        with np.load(io.BytesIO(string_value), allow_pickle=False) as arrays:
            self._write(dict(arrays))


def seed_generators(model: keras.Model) -> list[keras.random.SeedGenerator]:
    """Returns the distinct seed generators of all layers of `model`, in a fixed order."""
    found: dict[int, keras.random.SeedGenerator] = {}
    for layer in model._flatten_layers():
        for generator in layer._seed_generators:
            found.setdefault(id(generator), generator)
    return list(found.values())


class VariablesState(ArrayState):
    """Values of variables that have no place of their own in a checkpoint.

    Args:
        list_variables: Returns the variables, always in the same order.
    """

    def __init__(self, list_variables: Callable[[], list[Any]]) -> None:
        self.list_variables = list_variables
        super().__init__(self._read_values, self._write_values)

    def _read_values(self) -> dict[str, np.ndarray]:
        parts = local_parts(self.list_variables())
        return {f"{index}": part.numpy() for index, part in enumerate(parts)}

    def _write_values(self, arrays: Mapping[str, np.ndarray]) -> None:
        parts = local_parts(self.list_variables())
        if len(parts) != len(arrays):
            self.warn_of_difference(len(arrays), len(parts))
            return
        for index, part in enumerate(parts):
            part.assign(arrays[f"{index}"])

    def warn_of_difference(self, num_saved: int, num_present: int) -> None:
        """Warns that a checkpoint has another number of variables; not here."""


class SharedVariablesState(VariablesState):
    """Values that do not depend on the number of replicas: the first copy of each variable.

    Of sums over replicas, which the first replica holds for all, the other copies are 0.

    Args:
        list_variables: Returns the variables, always in the same order.
        list_names: Returns their names, in this order.
    """

    def __init__(
        self, list_variables: Callable[[], list[Any]], list_names: Callable[[], list[str]]
    ) -> None:
        super().__init__(list_variables)
        self._list_names = list_names

    @override
    def list_names(self) -> list[str]:
        return self._list_names()

    @override
    def _read_values(self) -> dict[str, np.ndarray]:
        variables = enumerate(self.list_variables())
        return {f"{index}": local_parts([part])[0].numpy() for index, part in variables}

    @override
    def _write_values(self, arrays: Mapping[str, np.ndarray]) -> None:
        variables = self.list_variables()
        if len(variables) != len(arrays):
            self.warn_of_difference(len(arrays), len(variables))
            return
        context = tf.distribute.get_strategy().extended
        is_chief = getattr(context, "_id_in_cluster", 0) == 0
        for index, variable in enumerate(variables):
            for place, part in enumerate(local_parts([variable])):
                is_sum = part.aggregation == tf.VariableAggregation.SUM
                is_elsewhere = is_sum and not (is_chief and place == 0)
                part.assign(arrays[f"{index}"] * (0 if is_elsewhere else 1))

    @override
    def warn_of_difference(self, num_saved: int, num_present: int) -> None:
        if num_saved:
            logger.warning(
                "The checkpoint holds %d states, but there are %d now: this run is not an exact "
                "continuation.",
                num_saved,
                num_present,
            )


class RandomState(VariablesState):
    """State of every seed generator of a model, by its place among the model's layers.

    Dropout and other random layers draw from `keras.random.SeedGenerator`s, whose state Keras does
    not put into TensorFlow checkpoints.
    """

    def __init__(self, model: keras.Model) -> None:
        super().__init__(lambda: [generator.state for generator in seed_generators(model)])

    @override
    def warn_of_difference(self, num_saved: int, num_present: int) -> None:
        logger.warning(
            "The checkpoint holds the random state of %d layers, but the model has %d random "
            "layers; they start from their seeds: this run is not an exact continuation.",
            num_saved,
            num_present,
        )


def local_parts(variables: Sequence[Any]) -> list[tf.Variable]:
    """Returns the copies of variables that the replicas of this process hold."""
    strategy = tf.distribute.get_strategy()
    values = [
        variable.value if isinstance(variable, keras.Variable) else variable
        for variable in variables
    ]
    return [part for value in values for part in strategy.experimental_local_results(value)]


class HostRandomState(NamedState):
    """The random states of the process: Python's, NumPy's, and those of TensorFlow and Keras.

    TensorFlow's are the global generator, if there is one, and the sequence from which operations
    outside of functions take their seeds; Keras' is what `keras.random` draws from without a seed.
    """

    @override
    def serialize(self) -> bytes:
        name, keys, *rest = np.random.get_state()
        state = {
            "python": random.getstate(),
            "numpy": [name, np.asarray(keys).tolist(), *rest],
            "variables": {key: part.numpy().tolist() for key, part in _global_variables().items()},
        }
        if context.global_seed() is not None:
            state["operations"] = context.context()._rng.getstate()
        return json.dumps(state).encode()

    @override
    def deserialize(self, string_value: bytes) -> None:
        state = json.loads(string_value)
        random.setstate(_to_random_state(state["python"]))
        name, keys, *rest = state["numpy"]
        np.random.set_state((name, np.array(keys, np.uint32), *rest))
        if "operations" in state and context.global_seed() is not None:
            context.context()._rng.setstate(_to_random_state(state["operations"]))
        if "keras 0" in state["variables"]:
            keras.src.random.seed_generator.global_seed_generator()  # makes it
        if "tensorflow 0" in state["variables"]:
            tf.random.get_global_generator()  # makes it
        for key, part in _global_variables().items():
            if key in state["variables"]:
                part.assign(tf.constant(state["variables"][key], part.dtype))


def _to_random_state(state: Sequence[Any]) -> tuple[Any, ...]:
    version, words, gauss = state
    return version, tuple(words), gauss


def _global_variables() -> dict[str, tf.Variable]:
    """Returns the variables of global random generators that there are, by name."""
    found: dict[str, Any] = {
        "keras": keras.src.backend.common.global_state.get_global_attribute(
            keras.src.random.seed_generator.GLOBAL_SEED_GENERATOR
        ),
        "tensorflow": stateful_random_ops.global_generator,
    }
    return {
        f"{name} {index}": part
        for name, generator in found.items()
        if generator is not None
        for index, part in enumerate(
            local_parts([generator.state if name == "keras" else generator._state_var])
        )
    }


class DataPosition(tf.train.experimental.PythonState):
    """Position of training in its data.

    A tf.data iterator gives its own state: shuffle buffers, bucket contents, file offsets and
    random seeds. Where TensorFlow can't save it, or would restore it wrongly
    (`pipeline_inspection`), a new iterator is moved to the place by drawing and dropping the
    batches that were used before, which takes the time to read them. A service that prepares
    batches for whoever asks has no position, and nothing is skipped.
    """

    def __init__(
        self,
        get_iterator: Callable[[], Any],
        count_batches: Callable[[], int],
        restart: Callable[[], Any] | None = None,
        *,
        inspection: pipeline_inspection.Inspection | None = None,
        is_external: bool = False,
    ) -> None:
        """Stores how to reach the iterator and how many batches were drawn from it.

        Args:
            get_iterator: Returns the training iterator, creating it if need be.
            count_batches: Returns the number of batches drawn since the start of the run.
            restart: Returns an iterator that stands at the beginning of the data. None takes it
                that nothing was drawn from the iterator when a position is restored.
            inspection: What is known of the pipeline. None takes it that TensorFlow restores it.
            is_external: Whether a service outside of the run (tf.data service) gives the batches.
        """
        self._get_iterator = get_iterator
        self._restart = restart or get_iterator
        self._count_batches = count_batches
        self._inspection = inspection or pipeline_inspection.Inspection()
        self._is_external = is_external
        self._has_failed = False

    @override
    def serialize(self) -> bytes:
        """Returns the number of batches drawn and, where there is one, the iterator's own state."""
        header: dict[str, Any] = {"batches": self._count_batches()}
        if files := file_marks.get_known():
            header["files"] = files
        if self._is_external:
            return json.dumps(header | {"is_external": True}).encode() + b"\n"
        return json.dumps(header).encode() + b"\n" + self._save_iterator()

    @override
    def deserialize(self, string_value: bytes) -> None:
        first_line, _, state = string_value.partition(b"\n")
        header = json.loads(first_line)
        if self._starts_anew(header):
            return
        _compare_files(header)
        # Earlier versions saved the state of every iterator; it is not used where it is wrong.
        if state and (self._inspection.is_saved or not self._inspection.is_exact):
            tf.raw_ops.DeserializeIterator(
                resource_handle=self._get_iterator()._iterator_resource,
                serialized=tf.io.parse_tensor(state, tf.variant),
            )
            return
        self._skip(self._restart(), header["batches"])

    def skip_batches(self, string_value: bytes) -> None:
        """Moves the iterator past the saved number of batches, whatever they were."""
        header = json.loads(string_value.partition(b"\n")[0])
        if not self._starts_anew(header):
            _compare_files(header)
            self._skip(self._restart(), header["batches"])

    def _starts_anew(self, header: Mapping[str, Any]) -> bool:
        """True if the saved place means nothing here, because a service gives or gave the data."""
        if not (self._is_external or header.get("is_external", False)):
            return False
        if header["batches"]:
            logger.warning(
                "A tf.data service, which is external, %s the training data: the %d batches that "
                "were trained on are not skipped, and this run is not an exact continuation.",
                "prepares" if self._is_external else "prepared", header["batches"],
            )  # fmt: skip
        return True

    def _skip(self, iterator: Any, num_batches: int) -> None:
        if not num_batches:
            return
        reasons = "; ".join(self._inspection.unsaved) or "the iterator's state is not saved"
        logger.info(
            "Reading past the %d batches that were trained on before (%s).", num_batches, reasons
        )
        start = time.monotonic()
        for number in range(num_batches):
            try:
                next(iterator)
            except (StopIteration, tf.errors.OutOfRangeError) as error:
                raise errors.DataError(
                    f"task.train_data: the data ended after {number} batches, but the checkpoint "
                    f"was trained on {num_batches}. They are not the data that the run began with; "
                    "put those back, or start a new run from the weights "
                    "(task.init_checkpoint)."
                ) from error
        logger.info("Read past them in %.1f seconds.", time.monotonic() - start)

    def _save_iterator(self) -> bytes:
        resource = getattr(self._get_iterator(), "_iterator_resource", None)
        if resource is None or not self._inspection.is_saved or self._has_failed:
            return b""
        try:
            state = tf.raw_ops.SerializeIterator(
                resource_handle=resource, external_state_policy=_FAIL_ON_EXTERNAL_STATE
            )
            return tf.io.serialize_tensor(state).numpy()
        except (tf.errors.FailedPreconditionError, tf.errors.UnimplementedError) as error:
            self._has_failed = True
            logger.warning(
                "The position in the training data can't be stored (%s). A resumed run will read "
                "past the batches it has used, which is exact only if they come in the same order.",
                error.message,
            )
            return b""


def read_data_marks(path: str) -> dict[str, str]:
    """Returns sizes and hashes of the files of training data that a checkpoint knows, by path.

    Args:
        path: Prefix of the checkpoint's files.

    Raises:
        CheckpointError: If it is damaged.
    """
    try:
        reader = literal_paths.read(path)
    except (tf.errors.OpError, ValueError) as error:
        raise errors.CheckpointError(f"{path}: is damaged and can't be read: {error}") from error
    marks: dict[str, str] = {}
    for name in reader.get_variable_to_shape_map():
        if name.startswith("data_position") and name.endswith("/py_state"):
            marks |= json.loads(reader.get_tensor(name).partition(b"\n")[0]).get("files", {})
    return marks


def _compare_files(header: Mapping[str, Any]) -> None:
    change = file_marks.describe_change(header.get("files", {}))
    if change and header["batches"]:
        logger.warning(
            "The training data changed since the checkpoint was saved: %s. This run is no exact "
            "continuation: which of the data it has seen is not known any more.",
            change,
        )
