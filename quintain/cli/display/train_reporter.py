"""Tells a display what the controller does."""

from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import override

from quintain import orbit
from quintain.cli.display import training_display

_TRAIN_LABELS: Final = {"training_loss": "loss", "token_accuracy": "accuracy"}
_RATE_LABELS: Final = {"tokens_per_second": "tokens/s", "examples_per_second": "examples/s"}
_EVAL_LABELS: Final = {
    "validation_loss": "loss",
    "perplexity": "perplexity",
    "token_accuracy": "accuracy",
    "sacrebleu_score": "BLEU",
    "chrf_score": "chrF",
    "exact_match": "exact",
}
_SMOOTHING: Final = 0.8
_INPUT_BOUND_SHARE: Final = 0.3


class ProgressReporter(orbit.Reporter):
    """Shows loss, speed and remaining time of training, and a line for each evaluation."""

    def __init__(self, display: training_display.TrainingDisplay) -> None:
        """Stores where to show it."""
        self._display = display
        self._step_secs: float | None = None
        self._is_compiled = False

    @override
    def on_train_begin(self, step: int, target_steps: int) -> None:
        """Says that the first step takes longer."""
        if step < target_steps:
            self._display.show_phase("Compiling the training step")

    @override
    def on_restore(self, step: int, path: str) -> None:
        """Says where the run goes on."""
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
        """Moves the bar."""
        step_secs = loop_secs / max(num_steps, 1)
        if self._step_secs is None or not self._is_compiled:
            # The first loop includes the compilation and says nothing about the speed.
            self._is_compiled, self._step_secs = self._step_secs is not None, step_secs
        else:
            self._step_secs = _SMOOTHING * self._step_secs + (1 - _SMOOTHING) * step_secs
        values = _format_output(dict(output), _TRAIN_LABELS)
        speed = f"{_rate(output)}{_input_note(output)}"
        left = _format_left(self._step_secs * (target_steps - step))
        self._display.show_training(step, target_steps, f"{values}  {speed}  ETA {left}")

    @override
    def on_eval_begin(self, step: int, num_steps: int) -> None:
        """Says that an evaluation runs."""
        self._display.show_phase(f"Evaluating step {step}")

    @override
    def on_eval_step(self, done: int, num_steps: int) -> None:
        """Counts the batches."""
        self._display.show_detail(f"{done} batches" if num_steps == -1 else f"{done}/{num_steps}")

    @override
    def on_eval_end(self, step: int, output: Mapping[str, Any], secs: float) -> None:
        """Prints the result."""
        from quintain.core.saving import evaluation_log

        flat = evaluation_log.flatten(output)
        labels = _label(flat) or {name: name for name in flat if name != "steps_per_second"}
        values = _format_output(flat, labels)
        self._display.show_line(f"evaluated step {step}: {values}  ({secs:.0f} s)")

    @override
    def on_message(self, text: str) -> None:
        """Prints the message."""
        self._display.show_line(text)


def _label(flat: Mapping[str, Any]) -> dict[str, str]:
    """Returns the short labels of well-known metrics, with the name of the task, if there is one.

    Args:
        flat: Metrics by name, those of one task among several as `task|metric`.
    """
    labels = {}
    tasks = dict.fromkeys(name.rpartition("|")[0] for name in flat)
    for task in tasks:
        for metric, label in _EVAL_LABELS.items():
            name = f"{task}|{metric}" if task else metric
            if name in flat:
                labels[name] = f"{task} {label}".strip()
    return labels


def _rate(output: Mapping[str, Any]) -> str:
    for name, label in _RATE_LABELS.items():
        if name in output:
            return f"{float(output[name]):,.0f} {label}"
    return ""


def _input_note(output: Mapping[str, Any]) -> str:
    """Says that training waits for its data, if that takes a good part of the time."""
    wait, step = output.get("input_wait_ms"), output.get("step_ms")
    if wait is None or not step or wait / step <= _INPUT_BOUND_SHARE:
        return ""
    return f" (input-bound: {100 * wait / step:.0f} % waiting)"


def _format_left(secs: float) -> str:
    minutes, seconds = divmod(int(secs), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def _format_output(output: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Returns the values of some keys in one line, in the order of `names` (key to label)."""
    return "  ".join(
        f"{label} {float(output[name]):.{_digits(float(output[name]))}f}"
        for name, label in names.items()
        if name in output
    )


def _digits(value: float) -> int:
    return 1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3
