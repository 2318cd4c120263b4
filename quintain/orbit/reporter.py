"""Reporters: callbacks for every event of the outer loop."""

import logging
import pprint
import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np

_logger = logging.getLogger(__name__)


class Reporter:
    """Callbacks for the events of the outer loop. They do nothing; override those you need.

    All methods are called from the thread that trains, and delay it for as long as they take.
    Numbers of steps are global steps unless said otherwise. Values in `output` are NumPy values.
    """

    def on_train_begin(self, step: int, target_steps: int) -> None:
        """Training starts at `step` and should go on to `target_steps`."""

    def on_train_loop(
        self,
        step: int,
        target_steps: int,
        output: Mapping[str, Any],
        loop_secs: float,
        num_steps: int,
    ) -> None:
        """A loop of `num_steps` steps that took `loop_secs` seconds ended at `step`."""

    def on_eval_begin(self, step: int, num_steps: int) -> None:
        """An evaluation of `num_steps` evaluation steps (-1: all of the data) starts."""

    def on_eval_step(self, done: int, num_steps: int) -> None:
        """`done` of `num_steps` evaluation steps (-1: all of the data) are done."""

    def on_eval_end(self, step: int, output: Mapping[str, Any], secs: float) -> None:
        """An evaluation that took `secs` seconds ended."""

    def on_checkpoint(self, step: int, path: str) -> None:
        """A checkpoint of `step` was handed over for writing to `path`."""

    def on_restore(self, step: int, path: str) -> None:
        """Training continues from the checkpoint at `path`, which is at `step`."""

    def on_train_end(self, step: int) -> None:
        """Training ended at `step`, in whatever way."""

    def on_message(self, text: str) -> None:
        """Something else that people should read."""


class LogReporter(Reporter):
    """Writes one line for every event to the log, at level INFO."""

    def on_train_begin(self, step: int, target_steps: int) -> None:
        """Logs the target."""
        _logger.info("train | step: %6d | training until step %d...", step, target_steps)

    def on_train_loop(
        self,
        step: int,
        target_steps: int,
        output: Mapping[str, Any],
        loop_secs: float,
        num_steps: int,
    ) -> None:
        """Logs the speed and the outputs."""
        del target_steps
        _logger.info(
            "train | step: %6d | steps/sec: %6.1f | output: %s",
            step,
            num_steps / loop_secs if loop_secs > 0 else 0.0,
            _format_output(output),
        )

    def on_eval_begin(self, step: int, num_steps: int) -> None:
        """Logs how much will be evaluated."""
        extent = "complete evaluation" if num_steps == -1 else f"{num_steps} steps of evaluation"
        _logger.info(" eval | step: %6d | running %s...", step, extent)

    def on_eval_end(self, step: int, output: Mapping[str, Any], secs: float) -> None:
        """Logs the duration and the outputs."""
        _logger.info(
            " eval | step: %6d | eval time: %6.1f sec | output: %s",
            step,
            secs,
            _format_output(output),
        )

    def on_checkpoint(self, step: int, path: str) -> None:
        """Logs the path."""
        _logger.info("saved checkpoint | step: %6d | %s", step, path)

    def on_restore(self, step: int, path: str) -> None:
        """Logs the path."""
        _logger.info("restored from checkpoint | step: %6d | %s", step, path)

    def on_message(self, text: str) -> None:
        """Logs the text."""
        _logger.info("%s", text)


def _format_output(output: Mapping[str, Any]) -> str:
    """Returns the outputs on one line, or on indented lines if they are many."""
    text = pprint.pformat(_to_plain_numbers(output), sort_dicts=False)
    return f"\n{textwrap.indent(text, '    ')}" if "\n" in text else text


def _to_plain_numbers(value: Any) -> Any:
    """Replaces `np.float32(0.1)` by 0.1, keeping as many digits as the type has."""
    if isinstance(value, Mapping):
        return {name: _to_plain_numbers(inner) for name, inner in value.items()}
    if isinstance(value, np.floating):
        return float(str(value))
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return _to_plain_numbers(value.item()) if value.dtype.kind != "f" else float(str(value))
    return value
