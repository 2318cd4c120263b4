"""Display of a training: a live bar on a terminal, plain lines elsewhere, or nothing."""

from typing import TYPE_CHECKING, Any, Final

from quintain.terminal import screens

if TYPE_CHECKING:
    from rich import progress

REFRESHES_PER_SEC: Final = 10.0
"""How often the clock of the bar, and what turns beside it, are drawn."""


class TrainingDisplay:
    """Shows phases, lines that stay, and how far training is."""

    def __init__(self, screen: screens.Screen) -> None:
        self._screen = screen
        self._bar: progress.Progress | None = None
        self._is_begun = False

    def show_phase(self, text: str) -> None:
        """Says what is done before and between training loops."""
        self._screen.show_note(f"{text} ...")
        self._draw(description=text, steps="", rates="")

    def show_detail(self, text: str) -> None:
        """Says how far the phase is, where that does not cost a line."""
        self._draw(steps=text)

    def show_line(self, text: str) -> None:
        """Prints a line that stays."""
        self._screen.show_line(text)

    def show_training(self, step: int, total: int, rates: str) -> None:
        """Shows how far training is; the first loop and the last at once."""
        is_first, self._is_begun = not self._is_begun, True
        self._screen.show_state(f"step {step}/{total}  {rates}", at_once=is_first or step >= total)
        self._draw(
            total, description="Training", completed=step, steps=f"{step}/{total}", rates=rates
        )

    def _draw(self, total: int | None = None, **fields: Any) -> None:
        """Draws the bar anew; without `total` it has no end."""

        def build(_: int) -> "progress.Progress":
            if self._bar is None:
                self._bar = _create_bar()
            self._bar.tasks[0].total = total
            self._bar.update(self._bar.task_ids[0], **fields)
            return self._bar

        self._screen.draw(build)


def _create_bar() -> "progress.Progress":
    from rich import progress

    bar = progress.Progress(
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}"),
        progress.BarColumn(bar_width=24),
        progress.TextColumn("{task.fields[steps]}"),
        progress.TextColumn("{task.fields[rates]}"),
        progress.TimeElapsedColumn(),
    )
    bar.add_task("Starting", total=None, steps="", rates="")
    return bar
