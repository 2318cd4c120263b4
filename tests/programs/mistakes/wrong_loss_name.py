"""Wrong loss name."""

from small_task import SmallTask, register


@register
class WrongLossName(SmallTask):
    """A task with this mistake."""

    def build_model(self):
        model = super().build_model()
        model.compile(loss="squared")
        return model
