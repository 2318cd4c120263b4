"""No dataset."""

from small_task import SmallTask, register


@register
class NoDataset(SmallTask):
    """A task with this mistake."""

    def build_inputs(self, params, input_context=None):  # HERE
        super().build_inputs(params, input_context)
