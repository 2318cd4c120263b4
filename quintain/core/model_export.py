"""The export of a model whose task says nothing: it takes what the task's inputs give it.

Names of inputs and outputs are the keys of mappings; of a functional model with several of them its
own names; else `inputs` and `outputs`, numbered where there are several.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.core import export_base
from quintain.process import user_errors

INPUTS: Final = "inputs"
OUTPUTS: Final = "outputs"

_ADVICE: Final = "Override `build_export_module` of the task to say what its model serves."


class ModelExport(export_base.ExportModule):
    """Serves a model with the inputs that it was trained on, without the labels."""

    def __init__(
        self,
        owner: Any,
        model: keras.Model,
        features: Any,
        inference_step: Callable[..., Any],
    ) -> None:
        """Finds out which of the features the model uses, and how its outputs are called.

        Args:
            owner: The task. What it holds, such as tables, is saved with the model.
            model: The model.
            features: `tf.TensorSpec`s of what the model is given, in their structure.
            inference_step: Maps features, and `model=`, to outputs.

        Raises:
            ConfigError: If features or outputs are no plain tensors.
        """
        super().__init__(None, model, inference_step)
        self.owner = owner
        # A plain attribute would come back as a wrapper, which Keras takes for another structure.
        self._pack = functools.partial(tf.nest.pack_sequence_as, features)
        self._parts = tuple(tf.nest.flatten(features))
        names = [part.name for part in tf.nest.flatten(getattr(model, "inputs", None) or ())]
        named = name_parts(features, INPUTS, names)
        _check_plain(named, "an input")
        traced = tf.function(self._infer).get_concrete_function(features)
        is_used = _find_used(traced, len(named))
        self.input_spec: dict[str, tf.TensorSpec] = {
            name: tf.TensorSpec(part.shape, part.dtype, name=name)
            for (name, part), used in zip(named.items(), is_used, strict=True)
            if used
        }
        self._names = list(named)
        if not self.input_spec:
            raise errors.ConfigError(f"The model's outputs depend on none of its inputs. {_ADVICE}")

    def _infer(self, features: Any) -> dict[str, tf.Tensor]:
        outputs = self.inference_step(features)
        names = getattr(self.model, "output_names", None) or ()
        named = name_parts(outputs, OUTPUTS, names)
        _check_plain(named, "an output")
        return named

    @override
    @tf.function
    def serve(self, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Runs the model; inputs and outputs are tensors by name."""
        first = next(iter(inputs.values()))
        parts = [
            inputs[name] if name in inputs else _build_unused(part, first)
            for name, part in zip(self._names, self._parts, strict=True)
        ]
        return self._infer(self._pack(parts))

    @override
    def get_inference_signatures(self, function_keys: dict[str, str]) -> Mapping[str, Any]:
        return {
            signature: self.find_function(name).get_concrete_function(**self.input_spec)
            for name, signature in function_keys.items()
        }


def derive(task: Any, model: keras.Model, batch: Any) -> ModelExport:
    """Returns the export of a model that takes what a task's inputs give.

    Raises:
        ConfigError: If the model can't be called with it, or what it takes or gives is no tensor.
    """

    @tf.function(autograph=False)
    def split(batch: Any) -> Any:
        features, _ = task.split_inputs(batch)
        return features

    try:
        features = split.get_concrete_function(free_batch(batch)).structured_outputs
        features = tf.nest.map_structure(
            lambda part: tf.TensorSpec(part.shape, part.dtype), features
        )
        return ModelExport(task, model, features, task.inference_step)
    except (TypeError, ValueError, LookupError, AttributeError, tf.errors.OpError) as error:
        if isinstance(error, errors.QuintainError):
            raise
        found = user_errors.explain(error)
        where = f"\n  {found.place}" if found.place else ""
        raise errors.ConfigError(
            f"{type(task).__name__}: the model can't be called with what the inputs of the task "
            f"give, {batch}: {found.cause}\n{_ADVICE}{where}"
        ) from error


def derive_from_data(task: Any, model: keras.Model) -> ModelExport:
    """Returns the export of a model that takes what a task's evaluation, or training, data give.

    Where these can't be built, as on another machine than that of the training, a functional model
    takes what it says itself.

    Raises:
        ConfigError: As for `derive`, or if the data can't be built.
    """
    config = task.task_config
    params = config.train_data if config.validation_data is None else config.validation_data
    try:
        batch = task.build_inputs(params).element_spec
    except (errors.QuintainError, OSError, tf.errors.OpError) as error:
        features = find_own_inputs(model)
        if features is not None:
            return ModelExport(task, model, features, task.inference_step)
        raise errors.ConfigError(
            f"{type(task).__name__}: what its model takes is found out from its data, which can't "
            f"be built here: {error}\n{_ADVICE}"
        ) from error
    return derive(task, model, batch)


def find_own_inputs(model: keras.Model) -> Any | None:
    """Returns the specs of what a functional model takes; None of a model that does not say."""
    inputs = getattr(model, "inputs", None)
    if not inputs:
        return None
    structure = getattr(model, "_inputs_struct", inputs)
    if isinstance(structure, list) and len(structure) == 1:
        structure = structure[0]
    return tf.nest.map_structure(lambda part: tf.TensorSpec(part.shape, part.dtype), structure)


def free_batch(batch: Any) -> Any:
    """Returns the specs of a batch without the number of its examples."""

    def free(part: Any) -> Any:
        if not isinstance(part, tf.TensorSpec):
            raise errors.ConfigError(
                f"The data hold {part}, which no signature can take. {_ADVICE}"
            )
        if not part.shape.rank:
            return part
        return tf.TensorSpec([None, *part.shape[1:]], part.dtype)

    return tf.nest.map_structure(free, batch)


def name_parts(structure: Any, default: str, names: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the parts of a structure by name, in the order of `tf.nest.flatten`.

    Args:
        structure: Mappings, tuples and lists of anything; None is left out.
        default: Name of a single part.
        names: Names of the parts of a tuple or a list, if there are as many.

    Example:
        >>> name_parts((1, {"b": 2, "a": 3}), "inputs")
        {'inputs_0': 1, 'inputs_1_a': 3, 'inputs_1_b': 2}
    """
    if structure is None:
        return {}
    if isinstance(structure, Mapping):
        start = "" if default in (INPUTS, OUTPUTS) else f"{default}_"
        parts = {f"{start}{key}": structure[key] for key in sorted(structure)}
    elif isinstance(structure, tuple | list):
        fits = len(names) == len(structure)
        called = names if fits else [f"{default}_{number}" for number in range(len(structure))]
        parts = dict(zip(called, structure, strict=True))
    else:
        return {default: structure}
    found: dict[str, Any] = {}
    for name, part in parts.items():
        inner = name_parts(part, name) if tf.nest.is_nested(part) else {name: part}
        found |= {key: value for key, value in inner.items() if value is not None}
    return found


def _check_plain(named: Mapping[str, Any], what: str) -> None:
    for name, part in named.items():
        if not (isinstance(part, tf.TensorSpec) or tf.is_tensor(part)) or isinstance(
            part, tf.RaggedTensor | tf.SparseTensor
        ):
            raise errors.ConfigError(
                f"{name}: {what} of the model is a {type(part).__name__}, which no signature can "
                f"hold. {_ADVICE}"
            )


def _find_used(function: Any, num_inputs: int) -> list[bool]:
    """Returns which of its first inputs the outputs of a traced function depend on."""
    waiting = [part.op for part in function.outputs] + list(function.graph.control_outputs)
    seen: set[str] = set()
    while waiting:
        op = waiting.pop()
        if op.name not in seen:
            seen.add(op.name)
            waiting += [part.op for part in op.inputs] + list(op.control_inputs)
    return [part.op.name in seen for part in function.inputs[:num_inputs]]


def _build_unused(part: tf.TensorSpec, used: tf.Tensor) -> tf.Tensor:
    """Returns something in place of a feature that nothing depends on, such as a label."""
    shape = [1 if size is None else size for size in part.shape.as_list()]
    if shape:
        shape[0] = tf.shape(used)[0]
    value = "" if part.dtype == tf.string else tf.cast(0, part.dtype)
    return tf.ensure_shape(tf.fill(shape, value), part.shape)
