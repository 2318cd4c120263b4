"""Validation step of its own."""

from small_task import SmallTask, register


@register
class ValidationStepOfItsOwn(SmallTask):
    """A task with this mistake."""

    def validation_step(self, inputs, model, metrics=None):
        raise ValueError("not today")  # HERE
