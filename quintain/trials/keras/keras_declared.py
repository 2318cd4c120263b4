"""Declared Keras models: the trial's methods return optimizer, loss and metrics.

Such trials return a model that is not compiled. Their metrics have the names that the methods give
them, and may be measured in training only, or in validations only.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import keras
import numpy as np

from quintain import errors
from quintain.trials import base_trial
from quintain.trials.keras import keras_data

_PREFIX: Final = "val_"
_LOSS: Final = "loss"


@dataclasses.dataclass(frozen=True)
class Measure:
    """One metric that a method lists."""

    name: str
    """The name that the user gave it."""

    metric: Any
    """A function of labels and predictions, the name of a metric, or a metric of Keras."""

    output: str | None = None
    """The output that it measures; None where there is one only."""

    reduce: Callable[[list[Any]], Any] | None = None
    """A function of the values of all batches; None for their mean, weighted by examples."""


@dataclasses.dataclass(frozen=True)
class Names:
    """Names of a compiled model's metrics in reports."""

    training: Mapping[str, str]
    """Reported names by those that the model has, for training."""

    validation: Mapping[str, str]
    """The same for validations."""

    reduced: tuple[Measure, ...] = ()
    """Metrics of validations that a function makes of the values of all batches."""

    def rename_training(self, logs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what is reported of a batch."""
        return {self.training[name]: logs[name] for name in logs if name in self.training}

    def rename_validation(self, logs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what is reported of a validation."""
        return {self.validation[name]: logs[name] for name in logs if name in self.validation}

    def list_validation(self) -> list[str]:
        """Returns what a validation reports."""
        return [*self.validation.values(), *(each.name for each in self.reduced)]


def compile_model(trial: Any, model: keras.Model, call: Callable[[Any], Any]) -> Names:
    """Compiles a model as the trial's methods say.

    Args:
        trial: A trial with `optimizer`, and `loss` or `losses`.
        model: Its model.
        call: Calls a method, with the hyperparameters if it takes an argument.

    Returns:
        What its metrics are called.

    Raises:
        TrialError: If a metric is none, or there is no loss.
    """
    loss = call(trial.loss)
    if loss is None:
        loss = call(trial.losses)
    if loss is None:
        raise errors.TrialError(
            f"{base_trial.describe_method(trial, 'optimizer')} is there, but no loss; expected a "
            "method loss() that returns a loss of Keras, or one for each output."
        )
    outputs = list(getattr(model, "output_names", None) or [])
    has_outputs = len(outputs) > 1
    trained = list(_read(trial, "training_metrics", call, outputs))
    validated = list(_read(trial, "validation_metrics", call, outputs))
    compiled: dict[str, Measure] = {}
    for each in (*trained, *validated):
        if each.reduce is None:
            compiled.setdefault(_name_in_logs(each), each)
    metrics: Any = [_to_metric(each) for each in compiled.values()]
    if has_outputs:
        metrics = {
            name: [_to_metric(each) for each in compiled.values() if each.output == name]
            for name in {each.output for each in compiled.values()}
        }
    model.compile(
        optimizer=call(trial.optimizer),
        loss=loss,
        metrics=metrics or None,
        loss_weights=call(trial.loss_weights),
    )
    losses = [_LOSS, *(f"{name}_{_LOSS}" for name in outputs if has_outputs)]
    return Names(
        training={
            **{name: name for name in losses},
            **{_name_in_logs(each): each.name for each in trained if each.reduce is None},
        },
        validation={
            **{name: f"{_PREFIX}{name}" for name in losses},
            **{_name_in_logs(each): each.name for each in validated if each.reduce is None},
        },
        reduced=tuple(each for each in validated if each.reduce is not None),
    )


def reduce_batches(
    measures: Iterable[Measure],
    model: keras.Model,
    data: Any,
    collect: Callable[[list[Any]], list[Any]],
) -> dict[str, Any]:
    """Returns the metrics that are functions of the values of all batches of the data.

    Args:
        measures: The metrics.
        model: The model.
        data: One pass through the data of this process.
        collect: Returns the values of all batches, from those of this process.
    """
    measures = list(measures)
    values: dict[str, list[Any]] = {each.name: [] for each in measures}
    for batch in keras_data.iterate(data) if measures else ():
        x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
        predicted = model(x, training=False)
        for each in measures:
            found = each.metric(
                _choose(y, each.output, model), _choose(predicted, each.output, model)
            )
            values[each.name].append(np.asarray(found))
    return {each.name: each.reduce(collect(values[each.name])) for each in measures if each.reduce}


def _choose(values: Any, output: str | None, model: keras.Model) -> Any:
    """Returns the part of labels or predictions that belongs to an output."""
    if output is None:
        return values
    if isinstance(values, Mapping):
        return values[output]
    return values[model.output_names.index(output)]


def _read(
    trial: Any, method: str, call: Callable[[Any], Any], outputs: list[str]
) -> Iterator[Measure]:
    """Yields the metrics that a method lists, in any of the forms that it may return."""
    given = call(getattr(trial, method)) or {}
    named = given.items() if isinstance(given, Mapping) else ((None, each) for each in given)
    for name, spec in named:
        is_output = len(outputs) > 1 and name in outputs
        for measure in _read_one(name, spec, outputs, is_output=is_output):
            if len(outputs) > 1 and measure.output is None:
                raise errors.TrialError(
                    f"{base_trial.describe_method(trial, method)}: {measure.name!r} does not say "
                    f"which output it measures, expected {{{measure.name!r}: (output, function)}} "
                    f"or {{output: {{{measure.name!r}: function}}}} with one of "
                    f"{', '.join(outputs)}."
                )
            yield measure


def _read_one(
    name: str | None, spec: Any, outputs: list[str], *, is_output: bool
) -> Iterator[Measure]:
    if is_output and isinstance(spec, Mapping):
        for inner, metric in spec.items():
            yield from _with_output(_read_one(inner, metric, [], is_output=False), name)
    elif is_output and isinstance(spec, list | tuple) and not _is_pair(spec, outputs):
        for metric in spec:
            yield from _with_output(_read_one(None, metric, [], is_output=False), name)
    elif _is_pair(spec, outputs):
        first, second = spec
        if isinstance(first, str) and first in outputs:
            yield from _with_output(_read_one(name, second, [], is_output=False), first)
        else:
            measure = Measure(name or _name(first), first, reduce=second)
            yield from _with_output([measure], name if is_output else None)
    else:
        if not (callable(spec) or isinstance(spec, str | keras.metrics.Metric)):
            raise errors.TrialError(
                f"The metric {name or spec!r} is {spec!r}, expected a function of labels and "
                "predictions, or a metric of Keras."
            )
        shown = _name(spec) if name is None or is_output else name
        yield from _with_output([Measure(shown, spec)], name if is_output else None)


def _is_pair(spec: Any, outputs: list[str]) -> bool:
    """Returns whether this is `(output, metric)` or `(metric, function of all batches)`."""
    if not isinstance(spec, tuple | list) or len(spec) != 2:
        return False
    names_output = isinstance(spec[0], str) and spec[0] in outputs
    has_reducer = callable(spec[0]) and callable(spec[1]) and not isinstance(spec, list)
    return names_output or has_reducer


def _with_output(measures: Iterable[Measure], output: str | None) -> Iterator[Measure]:
    for each in measures:
        yield dataclasses.replace(each, output=output) if output is not None else each


def _name(metric: Any) -> str:
    if isinstance(metric, str):
        return metric
    return str(getattr(metric, "name", None) or getattr(metric, "__name__", None) or metric)


def _name_in_logs(measure: Measure) -> str:
    """Returns what the model calls a metric."""
    own = measure.name if _is_function(measure.metric) else _name(measure.metric)
    return f"{measure.output}_{own}" if measure.output is not None else own


def _is_function(metric: Any) -> bool:
    return not isinstance(metric, str | keras.metrics.Metric)


def _to_metric(measure: Measure) -> Any:
    if not _is_function(measure.metric):
        return measure.metric
    return keras.metrics.MeanMetricWrapper(measure.metric, name=measure.name)
