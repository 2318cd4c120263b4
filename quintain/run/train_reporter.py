"""Reporter that tells a display what the controller does."""

import operator
from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import override

from quintain import orbit
from quintain.checkpoints import evaluation_log
from quintain.core.reports import shown_metrics
from quintain.terminal import durations, training_display

_SMOOTHING: Final = 0.8
_INPUT_BOUND_SHARE: Final = 0.3


class TrainReporter(orbit.Reporter):
    """Shows metrics, speed and remaining time of training, and a line for each evaluation."""

    def __init__(
        self,
        display: training_display.TrainingDisplay,
        labels: Mapping[str, shown_metrics.MetricLabel],
    ) -> None:
        """Stores where to show it, and how.

        Args:
            display: Where to show it.
            labels: Labels of metrics, the most important first.
        """
        self._display = display
        self._labels = labels
        self._step_secs: float | None = None
        self._is_compiled = False

    @override
    def on_train_begin(self, step: int, target_steps: int) -> None:
        if step < target_steps:
            self._display.show_phase("Compiling the training step")

    @override
    def on_restore(self, step: int, path: str) -> None:
        self._display.show_line(f"Going on from {path} (step {step}).")

    @override
    def on_train_loop(
        self,
        step: int,
        target_steps: int,
        output: Mapping[str, Any],
        loop_secs: float,
        num_steps: int,
    ) -> None:
        step_secs = loop_secs / max(num_steps, 1)
        if self._step_secs is None or not self._is_compiled:
            # The first loop includes the compilation and says nothing about the speed.
            self._is_compiled, self._step_secs = self._step_secs is not None, step_secs
        else:
            self._step_secs = _SMOOTHING * self._step_secs + (1 - _SMOOTHING) * step_secs
        left = durations.format_secs(self._step_secs * (target_steps - step))
        rates = f"{describe_loop(output, self._labels)}  ETA {left}"
        self._display.show_training(step, target_steps, rates)

    @override
    def on_eval_begin(self, step: int, num_steps: int) -> None:
        self._display.show_phase(f"Evaluating step {step}")

    @override
    def on_eval_step(self, done: int, num_steps: int) -> None:
        self._display.show_detail(f"{done} batches" if num_steps == -1 else f"{done}/{num_steps}")

    @override
    def on_eval_end(self, step: int, output: Mapping[str, Any], secs: float) -> None:
        self._display.show_line(describe_evaluation(step, output, self._labels, secs))

    @override
    def on_message(self, text: str) -> None:
        self._display.show_line(text)


def describe_loop(
    output: Mapping[str, Any], labels: Mapping[str, shown_metrics.MetricLabel]
) -> str:
    """Returns metrics and speed of a loop in one line; the arguments are `describe_metrics`'."""
    return f"{describe_metrics(output, labels)}  {_describe_rate(output)}{_describe_wait(output)}"


def describe_evaluation(
    step: int,
    output: Mapping[str, Any],
    labels: Mapping[str, shown_metrics.MetricLabel],
    secs: float,
) -> str:
    """Returns an evaluation in one line."""
    return f"evaluated step {step}: {describe_metrics(output, labels)}  ({secs:.0f} s)"


def describe_metrics(
    output: Mapping[str, Any], labels: Mapping[str, shown_metrics.MetricLabel]
) -> str:
    """Returns the metrics of a loop or of an evaluation in one line.

    Those with a label come in the order of the labels, others after them; those of one task among
    several together, with its name.

    Args:
        output: What was logged; the values of one task among several may be a mapping.
        labels: Labels by the name of the metric.
    """
    flat = evaluation_log.flatten(output)
    places = {name: place for place, name in enumerate(labels)}
    # What belongs to no single task comes first.
    tasks = list(dict.fromkeys(["", *(name.rpartition("|")[0] for name in flat)]))
    found = []
    for name, value in flat.items():
        task, _, metric = name.rpartition("|")
        label = labels.get(metric) or shown_metrics.MetricLabel(metric)
        if not label.is_minor and not shown_metrics.is_measurement(name):
            place = tasks.index(task), places.get(metric, len(places))
            found.append((place, f"{task} {label.show(value)}".lstrip()))
    return "  ".join(text for _, text in sorted(found, key=operator.itemgetter(0)))


def _describe_rate(output: Mapping[str, Any]) -> str:
    """Returns how fast what the task counts is used: examples, unless it counts something else."""
    ending = shown_metrics.RATE_ENDING
    rates = {name.removesuffix(ending): output[name] for name in output if name.endswith(ending)}
    if not rates:
        return ""
    name = min(rates, key="examples".__eq__)
    return f"{float(rates[name]):,.0f} {name}/s"


def _describe_wait(output: Mapping[str, Any]) -> str:
    """Says that training waits for its data, if that takes a good part of the time."""
    wait, step = output.get("input_wait_ms"), output.get("step_ms")
    if wait is None or not step or wait / step <= _INPUT_BOUND_SHARE:
        return ""
    return f" (input-bound: {100 * wait / step:.0f} % waiting)"
