"""Map function."""

from small_task import SmallTask, register


@register
class MapFunction(SmallTask):
    """A task with this mistake."""

    def build_inputs(self, params, input_context=None):
        return super().build_inputs(params, input_context).map(refuse)


def refuse(features, labels):
    """Raises an error."""
    raise ValueError("this example is not liked")  # HERE
