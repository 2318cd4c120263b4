"""DataFrames and plots of metrics, for notebooks.

pandas and matplotlib are imported when they are needed, and need not be there otherwise.
"""

import importlib
from collections.abc import Iterable, Sequence
from typing import Any

from quintain import errors
from quintain.records.rows import curve, metric


def to_frame(rows: Iterable[metric.MetricRow]) -> Any:
    """Returns metrics as a DataFrame, a row for each report and a column for each name."""
    pandas = load("pandas")
    frame = pandas.DataFrame(
        [
            {
                "trial_id": row.trial_id,
                "group": row.group.value,
                "batches": row.total_batches,
                "time": row.time,
                **{name: _to_value(value) for name, value in row.metrics.items()},
            }
            for row in rows
        ]
    )
    if frame.empty:
        return pandas.DataFrame(columns=["trial_id", "group", "batches", "time"])
    frame["time"] = pandas.to_datetime(frame["time"], unit="s", utc=True)
    return frame


def _to_value(value: Any) -> Any:
    """Returns a number as a float; what is none, such as a list, as it is."""
    number = curve.to_number(value)
    return value if number is None else number


def to_numbers(values: Iterable[Any]) -> list[float | None]:
    """Returns values as numbers: `"NaN"`, as JSON has it, too. What is none becomes None."""
    return [None if value is None else curve.to_number(value) for value in values]


def plot(
    trials: Sequence[tuple[int, Sequence[metric.MetricRow]]],
    metric_name: str,
    ax: Any,
    *,
    title: str,
) -> Any:
    """Draws a metric of trials, and returns the axes.

    Args:
        trials: Their numbers and metrics.
        metric_name: `GROUP/NAME`, or the name of a validation metric.
        ax: Axes to draw into; new ones if None.
        title: Title of the axes.

    Raises:
        ConfigError: If no trial has such a metric.
    """
    pyplot = load("matplotlib.pyplot")
    group, _, name = metric_name.rpartition("/")
    chosen = group or metric.MetricGroup.VALIDATION.value
    lines, known = {}, set()
    for trial_id, rows in trials:
        points = []
        for row in rows:
            known |= {f"{row.group.value}/{each}" for each in row.metrics}
            value = curve.to_number(row.metrics.get(name)) if row.group.value == chosen else None
            if value is not None:
                points.append((row.total_batches, value))
        if points:
            lines[trial_id] = points
    if not trials:
        raise errors.ConfigError(
            "There is nothing to plot yet: no trial has a value of the searched metric. Name "
            "others by trial_ids=[...]."
        )
    if not lines:
        raise errors.ConfigError(
            f"metric_name: got {metric_name!r}, but none of the {len(trials)} trials has it; they "
            f"have {', '.join(sorted(known)) or 'none'}."
        )
    axes = pyplot.subplots(layout="constrained")[1] if ax is None else ax
    for trial_id, points in lines.items():
        axes.plot(*zip(*points, strict=True), label=f"trial {trial_id}", marker=".")
    axes.set(xlabel="batches", ylabel=f"{chosen}/{name}", title=title)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))  # Beside the curves.
    return axes


def load(name: str) -> Any:
    """Returns a module that only notebooks need.

    Raises:
        ConfigError: If it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        if error.name != package:
            raise
        raise errors.ConfigError(
            f"{package} is not installed, and DataFrames and plots need it: "
            'pip install "quintain[notebook]" installs it.'
        ) from error
