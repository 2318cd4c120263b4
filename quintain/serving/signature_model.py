"""Any model, asked through its default signature: instances in, outputs by name."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.core import export_base, model_export
from quintain.orbit import iterators
from quintain.serving import exporter, instances, servable, trained_run
from quintain.vision import image_data

BATCH_SIZE: Final = 64
"""Instances that the model is given at a time unless the caller says otherwise."""

DATA_CHOICES: Final = {"train": "train_data", "validation": "validation_data"}
"""Choices of a task's data, with the fields of its config."""

_NO_DETAILS: Final[Mapping[str, Any]] = {}
_DEFAULT: Final = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


class SignatureModel:
    """A model of whatever kind, known by the types of its inputs and outputs.

    Example:
        model = SignatureModel.load("runs/mine")
        model.predict([{"pixels": [0.0, 0.5]}])[0]["outputs"]
    """

    def __init__(
        self, function: Any, owner: Any = None, details: Mapping[str, Any] = _NO_DETAILS
    ) -> None:
        """Stores the function, and what the export module says of itself.

        Raises:
            ConfigError: If an input or an output has no dimension for the batch.
        """
        self._function = function
        self._owner = owner
        self.image_input: str | None = details.get("image_input")
        """Input that takes encoded images; None if there is none."""
        self._signature_names: Mapping[str, str] = details.get("input_names") or {}
        names = {called: name for name, called in self._signature_names.items()}
        self.inputs: dict[str, tf.TensorSpec] = {
            names.get(called, called): spec
            for called, spec in function.structured_input_signature[1].items()
        }
        """Inputs by name; the first dimension is that of the batch."""
        self.gaps = instances.Gaps.from_details(details)
        """Values that instances may lack."""
        self._count: str | None = details.get("count_output")
        """Output that says how many rows of the others count."""
        self.example = details.get("example") or instances.build_example(self.inputs)
        """An instance."""
        self.outputs: dict[str, tf.TensorSpec] = {
            name: tf.TensorSpec(part.shape, part.dtype)
            for name, part in function.structured_outputs.items()
        }
        """Outputs, likewise."""
        for name, spec in {**self.inputs, **self.outputs}.items():
            if spec.shape.rank == 0 or (spec.shape.rank and spec.shape[0] is not None):
                raise errors.ConfigError(
                    f"{name}: the signature has the shape {spec.shape}, expected a first dimension "
                    "of any size, for the examples of a batch."
                )

    @classmethod
    def load(cls, model_dir: str, *, checkpoint: str | None = None) -> "SignatureModel":
        """Returns the model of a run, of an export or of any SavedModel, or of a Keras file.

        Raises:
            CheckpointError: If there is no checkpoint, or it does not fit.
            ConfigError: If the model has no default signature with a batch.
        """
        if not exporter.is_export(model_dir):
            return cls.from_module(servable.load(model_dir, checkpoint=checkpoint).module)
        exporter.refuse_checkpoint(checkpoint)
        loaded = exporter.load_saved_model(model_dir)
        if _DEFAULT not in loaded.signatures:
            raise errors.ConfigError(
                f"model_dir: got {model_dir!r}, a SavedModel without the signature {_DEFAULT!r}; "
                f"it has {', '.join(loaded.signatures) or 'none'}."
            )
        details = exporter.read_details(model_dir)
        return cls(loaded.signatures[_DEFAULT], loaded, details)

    @classmethod
    def from_module(cls, module: export_base.ExportModule) -> "SignatureModel":
        """Returns the model of an export module, which needs no file.

        Raises:
            ConfigError: If it has no default signature with a batch.
        """
        keys = {name: key for name, key in module.function_keys.items() if key == _DEFAULT}
        if not keys:
            raise errors.ConfigError(
                f"{type(module).__name__}.function_keys: got {dict(module.function_keys)!r}, "
                f"expected a function for the signature {_DEFAULT!r}."
            )
        signatures = module.get_inference_signatures(keys)
        # A concrete function as an export has it: all inputs by name.
        function = signatures[_DEFAULT]
        if isinstance(function, tf.types.experimental.PolymorphicFunction):
            function = function.get_concrete_function()
        positional, named = function.structured_input_signature
        details = module.describe()
        if not positional:
            return cls(function, module, details)
        specs = {spec.name or "inputs": spec for spec in tf.nest.flatten([positional, named])}

        @tf.function
        def serve(**inputs: tf.Tensor) -> Any:
            return function(*(inputs[name] for name in specs))

        return cls(serve.get_concrete_function(**specs), [module, serve], details)

    def parse(self, instance: Any) -> instances.Arrays:
        """Returns an instance as `run` takes it.

        Raises:
            DataError: Naming the input that does not fit.
        """
        example = instances.parse(self.gaps.fill(instance, self.inputs), self.inputs)
        if self.image_input is not None:
            damage = image_data.describe_damage(example[self.image_input].item())
            if damage:
                raise errors.DataError(f"{self.image_input}: can't be decoded: {damage}")
        return example

    def predict(self, given: Sequence[Any], batch_size: int = BATCH_SIZE) -> list[dict[str, Any]]:
        """Returns the outputs of instances, as plain data by name.

        Raises:
            DataError: If an instance does not fit; it says which, counted from 1.
        """
        return self.run(self.check(given), batch_size)

    def check(self, given: Sequence[Any]) -> list[instances.Arrays]:
        """Returns instances as `run` takes them.

        Raises:
            DataError: If one does not fit; it says which, counted from 1.
        """
        return parse_each(self.parse, given, "instance")

    def run(
        self, examples: Sequence[instances.Arrays], batch_size: int = BATCH_SIZE
    ) -> list[dict[str, Any]]:
        """Returns the outputs of examples, as plain data by name.

        Examples of the same shapes go together.
        """
        groups: dict[Any, list[int]] = {}
        for place, example in enumerate(examples):
            groups.setdefault(tuple(part.shape for part in example.values()), []).append(place)
        found: dict[int, dict[str, Any]] = {}
        for places in groups.values():
            for start in range(0, len(places), batch_size):
                chosen = places[start : start + batch_size]
                outputs = self._call(instances.stack([examples[place] for place in chosen]))
                for row, place in enumerate(chosen):
                    one = {name: np.asarray(values[row]) for name, values in outputs.items()}
                    if self._count is not None:
                        count = int(one.pop(self._count))
                        one = {name: value[:count] for name, value in one.items()}
                    found[place] = {name: instances.to_plain(part) for name, part in one.items()}
        return [found[place] for place in range(len(examples))]

    def describe(self) -> dict[str, Any]:
        """Returns type and shape of all inputs and outputs, without the batch."""
        return {
            "inputs": instances.describe(self.inputs),
            "outputs": instances.describe(self.outputs),
        }

    def _call(self, batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        inputs = {
            self._signature_names.get(name, name): tf.constant(batch[name], spec.dtype)
            for name, spec in self.inputs.items()
        }
        return {name: value.numpy() for name, value in self._function(**inputs).items()}


def parse_each(parse: Callable[[Any], Any], given: Sequence[Any], noun: str) -> list[Any]:
    """Returns instances as a function parses them.

    Raises:
        DataError: If one does not fit; it says which, counted from 1.
    """
    parsed = []
    for number, instance in enumerate(given, start=1):
        try:
            parsed.append(parse(instance))
        except errors.DataError as error:
            raise errors.DataError(f"{noun} {number}: {error}") from error
    return parsed


def predict_data(
    model_dir: str, choice: str, *, checkpoint: str | None = None
) -> Iterator[dict[str, Any]]:
    """Yields what the model of a run gives for each example of the run's data, as plain data.

    Args:
        model_dir: Directory of the run.
        choice: One of `DATA_CHOICES`. Training data are read once, in their order.
        checkpoint: Checkpoint of the run. None takes the newest.

    Raises:
        CheckpointError: If there is no checkpoint, or it does not fit.
        ConfigError: If the directory holds no run, or its task has no such data.
    """
    found = None
    if not exporter.is_export(model_dir):
        found = trained_run.load(model_dir, checkpoint=checkpoint)
    params = getattr(found.task.task_config, DATA_CHOICES[choice], None) if found else None
    if found is None or params is None:
        reason = f"has no task.{DATA_CHOICES[choice]}" if found else "is an export, without data"
        raise errors.ConfigError(f"--data: got {choice!r}, but {model_dir!r} {reason}.")
    task, model = found.task, found.model
    params = params.replace(is_training=False)

    @tf.function(reduce_retracing=True)
    def infer(batch: Any) -> dict[str, tf.Tensor]:
        features, _ = task.split_inputs(batch)
        names = getattr(model, "output_names", None) or ()
        outputs = task.inference_step(features, model)
        return model_export.name_parts(outputs, model_export.OUTPUTS, names)

    for batch in iterators.create(task.build_inputs(params)):
        outputs = {name: value.numpy() for name, value in infer(batch).items()}
        for row in range(len(next(iter(outputs.values()), ()))):
            yield {
                name: instances.to_plain(np.asarray(values[row]))
                for name, values in outputs.items()
            }
