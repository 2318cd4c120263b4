"""Unbatched data."""

from small_task import SmallTask, register


@register
class UnbatchedData(SmallTask):
    """A task with this mistake."""

    def build_inputs(self, params, input_context=None):
        return super().build_inputs(params, input_context).unbatch()
