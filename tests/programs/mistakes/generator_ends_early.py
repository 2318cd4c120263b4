"""Generator ends early."""

from small_task import SmallTask, register


@register
class GeneratorEndsEarly(SmallTask):
    """A task with this mistake."""

    def build_inputs(self, params, input_context=None):
        return super().build_inputs(params, input_context).take(1)
