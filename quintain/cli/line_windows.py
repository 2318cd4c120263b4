"""Lines answered by a model: a window at a time, in order, the bad ones reported."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import click

from quintain import errors
from quintain.cli import text_lines

Lines = Sequence[text_lines.Line]
T = TypeVar("T")


@dataclasses.dataclass
class LineWindows(Generic[T]):
    """Answers lines, and counts those that were left out."""

    answer: Callable[[Lines], Iterable[T]]
    """Answers good lines, in their order."""

    check: Callable[[Lines], Lines]
    """Returns the lines of a window, those marked as bad that the model can't answer."""

    window: int
    """Lines read ahead."""

    is_skipping: bool
    """Whether bad lines are reported and left out, instead of ending everything."""

    verb: str
    """What is done to lines, such as `translated`."""

    noun: str
    """What comes of it, such as `translations`."""

    filler: T
    """The answer to a bad line."""

    num_skipped: int = 0
    """Lines left out."""

    num_read: int = 0
    """Lines answered or left out."""

    def run(self, lines: Iterable[text_lines.Line]) -> Iterator[tuple[text_lines.Line, T]]:
        """Yields lines and their answers in order.

        Raises:
            DataError: At a bad line, after all before it, unless bad lines are skipped.
        """
        waiting: list[text_lines.Line] = []
        for line in lines:
            waiting.append(line)
            is_end = bool(line.problem) and not self.is_skipping
            if len(waiting) == self.window or is_end:
                yield from self._answer_window(waiting)
                waiting = []
        yield from self._answer_window(waiting)

    def report(self) -> None:
        """Says how many lines were skipped."""
        if self.num_skipped:
            click.echo(
                f"{self.num_skipped:,} of {self.num_read:,} lines were skipped; their {self.noun} "
                "are empty.",
                err=True,
            )

    def _answer_window(self, lines: Lines) -> Iterator[tuple[text_lines.Line, T]]:
        checked = self.check(lines) if lines else lines
        places = [place for place, line in enumerate(checked) if line.problem]
        usable = checked if self.is_skipping or not places else checked[: places[0]]
        good = [line for line in usable if not line.problem]
        answers = iter(self.answer(good) if good else ())
        for line in usable:
            self.num_read += 1
            if line.problem:
                self.num_skipped += 1
                click.echo(f"line {line.number}: {line.problem}; skipped.", err=True)
            yield line, self.filler if line.problem else next(answers)
        if len(usable) < len(checked):
            bad = checked[len(usable)]
            raise errors.DataError(
                f"line {bad.number}: {bad.problem}. The {self.num_read:,} lines before it are "
                f"{self.verb}. Mend the line, or give --skip-bad to leave such lines out."
            )
