"""History of a run's metrics, and its record of training loops.

The record is one line of JSON a loop, in `training.jsonl`.
"""

import html
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from quintain import errors
from quintain.checkpoints import evaluation_log
from quintain.core.reports import shown_metrics
from quintain.files import file_io, file_paths, json_lines, whole_files

FILE_NAME: Final = "training.jsonl"

_WIDTH: Final = 320
_HEIGHT: Final = 120
_COLORS: Final = ("#3b6fb6", "#c8662b")
_MAX_ROWS: Final = 12

Curve = list[tuple[int, float]]
"""Steps and values."""


class History:
    """Metrics of a run by step: of its training loops, and of its evaluations.

    Example:
        >>> history = History()
        >>> history.add_loop(10, {"training_loss": 0.5, "accuracy": 0.75})
        >>> history.add_evaluation(10, {"validation_loss": 0.6, "accuracy": 0.7})
        >>> history.training["accuracy"], history.validation["accuracy"]
        ([(10, 0.75)], [(10, 0.7)])
        >>> history.history["val_loss"]
        [0.6]
    """

    def __init__(self) -> None:
        self.training: dict[str, Curve] = {}
        """Means over training loops, by metric."""
        self.validation: dict[str, Curve] = {}
        """Results of evaluations, by metric."""
        self.measurements: dict[str, Curve] = {}
        """Further numbers, such as `step_ms` and `best_accuracy`; of evaluations with `val_`."""
        self.model: Any = None
        """The model that `fit` has trained; None of a history that was read."""

    def add_loop(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Adds what a training loop gave that ended at a step."""
        self._add(self.training, "", step, metrics)

    def add_evaluation(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Adds what an evaluation at a step gave."""
        self._add(self.validation, "val_", step, metrics)

    @property
    def history(self) -> dict[str, list[float]]:
        """The same as Keras' `fit` returns it: a list for each metric, without the steps.

        The losses are `loss` and `val_loss`, other metrics of evaluations begin with `val_`; there
        is a value for each training loop, or each evaluation.
        """
        return {name: [value for _, value in curve] for name, curve in self._name_curves().items()}

    def at(self, step: int) -> dict[str, float]:
        """Returns the newest metrics by the names of `history`, as far as they are of a step."""
        newest = {name: curve[-1] for name, curve in self._name_curves().items()}
        return {name: value for name, (at, value) in newest.items() if at == step}

    def _name_curves(self) -> dict[str, Curve]:
        """Returns the curves by Keras' names."""
        validation = _by_keras_name(self.validation).items()
        return _by_keras_name(self.training) | {f"val_{name}": one for name, one in validation}

    def _add(
        self, curves: dict[str, Curve], prefix: str, step: int, metrics: Mapping[str, Any]
    ) -> None:
        plain = evaluation_log.flatten(evaluation_log.to_plain(metrics))
        for name, value in plain.items():
            if not isinstance(value, int | float) or isinstance(value, bool):
                continue
            is_best = name.startswith("best_") and name.removeprefix("best_") in plain
            if is_best or shown_metrics.is_measurement(name) or name.startswith("learning_rate"):
                self.measurements.setdefault(f"{prefix}{name}", []).append((step, float(value)))
            else:
                curves.setdefault(name, []).append((step, float(value)))

    @property
    def steps(self) -> int:
        """The last step that anything was measured at; 0 if nothing was."""
        curves = [*self.training.values(), *self.validation.values()]
        return max((curve[-1][0] for curve in curves), default=0)

    def __repr__(self) -> str:
        names = ", ".join([*self.training, *(f"{name} (evaluated)" for name in self.validation)])
        return f"<History of {self.steps} steps: {names or 'nothing yet'}>"

    def _repr_html_(self) -> str:
        return to_html(self)


def read_history(model_dir: str) -> History:
    """Returns what the run in a directory has recorded, that of a running one included.

    Args:
        model_dir: Directory of a run of `quintain train`, `run_experiment` or `fit`.

    Raises:
        ConfigError: If there is no such directory.
        DamagedFileError: If a record can't be understood.
    """
    if not file_io.isdir(model_dir):
        raise errors.ConfigError(f"model_dir: got {model_dir!r}, expected the directory of a run.")
    history = History()
    for entry in TrainingLog(model_dir).read():
        history.add_loop(entry["step"], entry["metrics"])
    for step, metrics in evaluation_log.EvaluationLog(model_dir).read_all().items():
        history.add_evaluation(step, metrics)
    return history


class Logs(dict[str, Any]):
    """Metrics of the last evaluation, with the history of the run that gave them."""

    def __init__(self, metrics: Mapping[str, Any], history: History | None) -> None:
        """Stores both.

        Args:
            metrics: Metrics by name.
            history: What the run measured; None of a run that keeps nothing.
        """
        super().__init__(metrics)
        self.history = history


def to_html(history: History, note: str = "") -> str:
    """Returns curves and a table of the last values, as HTML that needs no script.

    Args:
        history: What to show.
        note: A line above it.
    """
    curves = [_by_keras_name(history.training), _by_keras_name(history.validation)]
    names = sorted({**curves[0], **curves[1]}, key=lambda name: name != "loss")[:_MAX_ROWS]
    rows = "".join(_build_row(name, [one.get(name, []) for one in curves]) for name in names)
    legend = "".join(
        f'<th style="color:{color}">{name}</th>'
        for name, color in zip(("training", "validation"), _COLORS, strict=True)
    )
    head = f"<tr><th></th>{legend}<th></th></tr>"
    title = f"<div>{html.escape(note)}</div>" if note else ""
    return f"<div>{title}<table>{head}{rows}</table></div>"


def _build_row(name: str, curves: Sequence[Curve]) -> str:
    cells = "".join(
        f"<td>{curve[-1][1]:.5g} <small>step {curve[-1][0]:,}</small></td>"
        if curve
        else "<td></td>"
        for curve in curves
    )
    return f"<tr><th>{html.escape(name)}</th>{cells}<td>{_draw(curves)}</td></tr>"


def _draw(curves: Sequence[Curve]) -> str:
    """Returns curves as one picture."""
    points = [point for curve in curves for point in curve]
    if len(points) < 2:
        return ""
    lows = [min(point[axis] for point in points) for axis in (0, 1)]
    spans = [(max(point[axis] for point in points) - lows[axis]) or 1.0 for axis in (0, 1)]
    lines = ""
    for curve, color in zip(curves, _COLORS, strict=True):
        path = " ".join(
            f"{(step - lows[0]) / spans[0] * _WIDTH:.1f},"
            f"{_HEIGHT - (value - lows[1]) / spans[1] * _HEIGHT:.1f}"
            for step, value in curve
        )
        lines += f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>'
    box = f"-4 -4 {_WIDTH + 8} {_HEIGHT + 8}"
    return f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="{box}">{lines}</svg>'


def _by_keras_name(curves: Mapping[str, Curve]) -> dict[str, Curve]:
    losses = ("training_loss", "validation_loss")
    return {"loss" if name in losses else name: curve for name, curve in curves.items()}


class TrainingLog:
    """Appends the output of every loop, with its last step and the time.

    Lines of steps that a run was thrown back from are dropped: the file always reads as if the run
    had never stopped. So is half a line, which a kill may leave.

    Example:
        >>> import tempfile
        >>> log = TrainingLog(tempfile.mkdtemp(), clock=lambda: 1.5)
        >>> log.record(10, {"training_loss": 0.5})
        >>> log.record(20, {"training_loss": 0.25})
        >>> log.drop_after(10)
        >>> log.read()
        [{'step': 10, 'time_secs': 1.5, 'metrics': {'training_loss': 0.5}}]
    """

    def __init__(self, directory: str, clock: Callable[[], float] = time.time) -> None:
        """Stores the directory of the record; nothing is read or written yet.

        Attributes:
            last_time: Time of the newest line that this object has written, or None.

        Args:
            directory: Directory of the run.
            clock: Returns the time in seconds since the epoch.
        """
        self._path = file_paths.join(directory, FILE_NAME)
        self._clock = clock
        self._last_step: int | None = None
        self.last_time: float | None = None

    def record(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Appends a line, after dropping those of `step` and later ones."""
        if self._last_step is None or step <= self._last_step:
            self.drop_after(step - 1)
        time_secs = self._clock()
        entry = {
            "step": step,
            "time_secs": time_secs,
            "metrics": evaluation_log.to_plain(metrics),
        }
        whole_files.append(self._path, json.dumps(entry))
        self._last_step = step
        self.last_time = time_secs

    def drop_after(self, step: int) -> None:
        """Drops the lines of steps after `step`, and a torn end."""
        entries = self.read()
        kept = [entry for entry in entries if entry["step"] <= step]
        self._last_step = step
        if kept != entries or json_lines.is_torn(self._path):
            json_lines.write(self._path, kept)

    def read(self) -> list[dict[str, Any]]:
        """Returns all entries, by rising step.

        Raises:
            DamagedFileError: If a line before the last ones can't be understood.
        """
        return json_lines.read(self._path)
