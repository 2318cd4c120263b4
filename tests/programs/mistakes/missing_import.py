"""Missing import."""

from small_task import SmallTask, register


@register
class MissingImport(SmallTask):
    """A task with this mistake."""

    def build_model(self):
        import no_such_package  # HERE

        return no_such_package.build()
