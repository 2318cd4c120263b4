"""Checks of measured metrics, and means over batches."""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from quintain import errors
from quintain.trials import trial_context

logger = logging.getLogger(__name__)


def average(batch_metrics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the mean of each metric over the batches, each batch counting once.

    Args:
        batch_metrics: One mapping for each batch, all with the same names. `None` is left out of
            the mean. Equal shapes other than scalars give the mean of all elements, unequal ones
            None.

    Raises:
        TrialError: If batches have different names, or none begins with `loss`.

    Example:
        >>> average([{"loss": 1.0, "top": [1.0, 2.0]}, {"loss": 3.0, "top": [3.0, 4.0]}])
        {'loss': 2.0, 'top': 2.5}
    """
    names = list(batch_metrics[0])
    for number, metrics in enumerate(batch_metrics):
        if metrics.keys() != batch_metrics[0].keys():
            raise errors.TrialError(
                f"Training metrics: batch {number} of the workload has the names "
                f"{sorted(metrics)}, the first one {sorted(names)}; all batches need the same."
            )
    require_loss(names)
    return {name: average_values([metrics[name] for metrics in batch_metrics]) for name in names}


def require_loss(names: Sequence[str]) -> None:
    """Checks that one of the training metrics is a loss.

    Raises:
        TrialError: If no name begins with `loss`.
    """
    if not any(name.startswith("loss") for name in names):
        raise errors.TrialError(
            f"Training metrics: got {sorted(names)}, expected one called 'loss' among them."
        )


def average_values(values: Sequence[Any]) -> float | None:
    """Returns the mean of one metric over the batches, as `average` takes it."""
    try:
        known = [np.asarray(value, np.float64) for value in values if value is not None]
    except (TypeError, ValueError):
        return None  # texts, or rows of different lengths
    if not known or len({value.shape for value in known}) > 1:
        return None
    return float(np.mean(np.stack(known)))


def to_plain(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Returns metrics as Python's own numbers and lists.

    Raises:
        TrialError: If a value is something else.
    """
    return {name: _to_plain(name, value) for name, value in metrics.items()}


def _to_plain(name: str, value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "biufSU":
        try:
            array = array.astype(np.float32)  # bfloat16 among them
        except (TypeError, ValueError):
            raise errors.TrialError(f"Metric {name!r}: got {value!r}, expected numbers.") from None
    return array.tolist()


def require_searched(searched: str, measured: Collection[str], aliases: Mapping[str, str]) -> None:
    """Checks that the metric by which the search judges is among those of the validation.

    Raises:
        TrialError: If it is not.
    """
    if searched not in measured and aliases.get(searched) not in measured:
        raise errors.TrialError(
            f"searcher.metric: got {searched!r}, which the validation does not measure. "
            + trial_context.describe_names(searched, measured)
        )


def check_validation(
    metrics: Mapping[str, Any], searched: str, aliases: Mapping[str, str]
) -> dict[str, Any]:
    """Returns the metrics of a validation in plain form.

    Args:
        metrics: Values by name. Bytes are left out with a warning.
        searched: The metric by which the search judges; empty if there is none.
        aliases: Other names of the metrics, by which the searched one may be called.

    Raises:
        TrialError: If a value is None, or the searched metric is missing or no single number.
    """
    plain: dict[str, Any] = {}
    for name, value in metrics.items():
        if value is None:
            raise errors.TrialError(f"Validation metric {name!r} is None, expected a number.")
        if isinstance(value, bytes) or np.asarray(value).dtype.kind == "S":
            logger.warning("Validation metric %r is left out: bytes are no numbers.", name)
            continue
        plain[name] = _to_plain(name, value)
    if searched and searched not in plain and aliases.get(searched) in plain:
        plain[searched] = plain[aliases[searched]]
    if searched:
        require_searched(searched, plain, {})
    if searched and not isinstance(plain[searched], int | float):
        raise errors.TrialError(
            f"searcher.metric: {searched!r} is {plain[searched]!r}, expected a single number."
        )
    return plain
