"""Reduced logs."""

from small_task import SmallTask, register


@register
class ReducedLogs(SmallTask):
    """A task with this mistake."""

    def aggregate_logs(self, state=None, step_outputs=None):
        return step_outputs

    def reduce_aggregated_logs(self, aggregated_logs, global_step=None):
        return {"error": 1 - aggregated_logs["accuracy"]}  # HERE
