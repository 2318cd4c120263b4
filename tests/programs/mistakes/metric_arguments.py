"""Metric arguments."""

import keras

from small_task import SmallTask, register


@register
class MetricArguments(SmallTask):
    """A task with this mistake."""

    def build_metrics(self, training=True):
        return [keras.metrics.Mean("mean")]

    def process_metrics(self, metrics, labels, model_outputs, **kwargs):
        metrics[0].update_state(labels, model_outputs, None)  # HERE
