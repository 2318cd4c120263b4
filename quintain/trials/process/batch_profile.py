"""TensorBoard profile of some batches of a trial."""

import importlib
from typing import Any, Final

from quintain.trials import base_trial, trial_context

_NUM_BATCHES: Final = 10
"""Batches of a profile of which no end is set."""


class BatchProfile:
    """Profiles the batches that the part `profiling` of the config names.

    The files lie in `plugins/profile` of the trial's directory for TensorBoard. A trial that goes
    on after the first of these batches profiles what is left of them.
    """

    def __init__(self, context: trial_context.TrialContext) -> None:
        self._context = context
        config = context.get_experiment_config().get("profiling") or {}
        self._begin = int(config.get("begin_on_batch") or 0)
        end = config.get("end_after_batch")
        self._end = self._begin + _NUM_BATCHES if end is None else int(end)
        if not config.get("enabled"):
            self._end = self._begin

    def train(
        self, controller: base_trial.TrialController, start: int, num_batches: int
    ) -> base_trial.TrainResult:
        """Trains on the batches after the first `start`."""
        first = min(max(self._begin, start), start + num_batches)
        last = min(max(self._end, first), start + num_batches)
        if first == last:
            return controller.train(num_batches)
        results = []
        if first > start:
            results.append(controller.train(first - start))
        profiler: Any = importlib.import_module("tensorflow").profiler.experimental
        with profiler.Profile(str(self._context.get_tensorboard_path())):
            results.append(controller.train(last - first))
        if last < start + num_batches:
            results.append(controller.train(start + num_batches - last))
        return _join(results)


def _join(results: list[base_trial.TrainResult]) -> base_trial.TrainResult:
    """Returns the result of all pieces of a workload."""
    num_inputs = sum(each.num_inputs for each in results)
    batches = [metrics for each in results for metrics in each.batch_metrics]
    parts = [(each.metrics, each.num_inputs) for each in results if each.metrics is not None]
    if not parts:
        return base_trial.TrainResult(num_inputs, batches)
    means = {
        name: sum(metrics[name] * count for metrics, count in parts) / max(num_inputs, 1)
        for name in parts[0][0]
    }
    return base_trial.TrainResult(num_inputs, batches, means)
