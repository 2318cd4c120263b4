"""Certificate that a port equals an older model, or the first place where it does not."""

import dataclasses
import html
import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Any, Final

from quintain.certify import stages, variable_map

_T_QUANTILES: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045,
)  # fmt: skip
"""Two-sided 95 % quantiles of Student's distribution, by degrees of freedom from 1 on."""

MAX_SEEDS: Final = len(_T_QUANTILES) + 1
_MARGIN: Final = 1e-3
"""Relative difference of final losses that rounding alone may reach."""


@dataclasses.dataclass(frozen=True)
class StageResult:
    """A stage that was compared."""

    stage: str
    size: float
    is_equal: bool


@dataclasses.dataclass(frozen=True)
class ShortTrainings:
    """Final losses of trainings that began with the same weights."""

    steps: int
    old: tuple[float, ...]
    new: tuple[float, ...]

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the mean of NEW's loss minus OLD's, by pairs."""
        gaps = [b - a for a, b in zip(self.old, self.new, strict=True)]
        mean = statistics.fmean(gaps)
        half = _T_QUANTILES[len(gaps) - 2] * statistics.stdev(gaps) / math.sqrt(len(gaps))
        return mean - half, mean + half

    @property
    def is_equal(self) -> bool:
        """Whether no difference is shown: 0 is inside, or all is smaller than rounding makes it."""
        low, high = self.interval
        margin = _MARGIN * abs(statistics.fmean(self.old))
        return low <= 0 <= high or max(-low, high) <= margin


@dataclasses.dataclass(frozen=True)
class Certificate:
    """All that a comparison has found."""

    old: str
    new: str
    tolerance: float
    results: tuple[StageResult, ...]
    map: tuple[variable_map.Entry, ...]
    notes: tuple[str, ...]
    difference: stages.Difference | None = None
    cause: str = ""
    trainings: ShortTrainings | None = None

    @property
    def is_equivalent(self) -> bool:
        """Whether nothing differs."""
        return self.difference is None

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.difference is not None:
            first = self.difference
            cause = f"Likely cause: {self.cause}." if self.cause else "No known cause explains it."
            size = f" by {first.size:.2g}" if first.size else ""
            return f"first difference: {first.stage.value}, {first.place}{size}. {cause}"
        computed = {one.value for one in stages.COMPUTED}
        sizes = [one.size for one in self.results if one.stage in computed]
        largest = max(sizes, default=0.0)
        text = f"equivalent within {self.tolerance:g} for {stages.NUM_STEPS} updates"
        if largest > self.tolerance:
            text = (
                f"equivalent within rounding for {stages.NUM_STEPS} updates: {largest:.2g} is "
                f"above {self.tolerance:g}, but at most ten times that, or ten times what "
                "rounding alone makes"
            )
        if self.trainings is None:
            return f"{text}."
        low, high = self.trainings.interval
        seeds = len(self.trainings.old)
        return (
            f"{text}; no difference over {seeds} seeds of {self.trainings.steps} steps "
            f"(95 % interval of the final loss's difference {low:+.2g} to {high:+.2g})."
        )

    def to_json(self) -> dict[str, Any]:
        """Returns plain data."""
        found = dataclasses.asdict(self) | {
            "is_equivalent": self.is_equivalent,
            "verdict": self.verdict,
        }
        if self.difference is not None:
            found["difference"]["stage"] = self.difference.stage.value
        if self.trainings is not None:
            found["trainings"]["interval"] = self.trainings.interval
        return found

    def to_text(self) -> str:
        """Returns lines for a terminal."""
        rows = [f"  {one.stage:<27}{_show(one)}" for one in self.results]
        notes = [f"  Note: {one}" for one in self.notes]
        return "\n".join([f"{self.old} and {self.new}: {self.verdict}", *rows, *notes])

    def to_html(self) -> str:
        """Returns a page that needs no other file."""
        stage_rows = [(one.stage, _show(one)) for one in self.results]
        map_rows = [(one.new, one.old, _show_entry(one)) for one in self.map]
        parts = [
            f"<h1>{_escape(self.old)} &rarr; {_escape(self.new)}</h1>",
            f'<p class="{"equal" if self.is_equivalent else "other"}">{_escape(self.verdict)}</p>',
            *(f"<p>{_escape(note)}</p>" for note in self.notes),
            *_build_table("Stages", ("stage", "result"), stage_rows),
        ]
        if self.trainings is not None:
            pairs = zip(self.trainings.old, self.trainings.new, strict=True)
            losses = [
                (seed, f"{a:.6g}", f"{b:.6g}", f"{b - a:+.2g}") for seed, (a, b) in enumerate(pairs)
            ]
            parts += _build_table("Short trainings", ("seed", "OLD", "NEW", "difference"), losses)
        parts += _build_table("Variables", ("NEW", "OLD", "change"), map_rows)
        return _PAGE.format(title=_escape(self.new), body="\n".join(parts))


_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto }}
table {{ border-collapse: collapse }}
td, th {{ border: 1px solid #ccc; padding: .2rem .6rem; text-align: left }}
.equal {{ border-left: .4rem solid #2a7d46; padding-left: .6rem }}
.other {{ border-left: .4rem solid #b3261e; padding-left: .6rem }}
</style></head><body>
{body}
</body></html>
"""


def _build_table(title: str, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    yield f"<h2>{title}</h2><table><tr>{''.join(f'<th>{name}</th>' for name in names)}</tr>"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{_escape(str(cell))}</td>' for cell in row)}</tr>"
    yield "</table>"


def _escape(text: str) -> str:
    return html.escape(text)


def _show(result: StageResult) -> str:
    size = f", largest difference {result.size:.2g}" if result.size or result.is_equal else ""
    return f"{'equal' if result.is_equal else 'DIFFERENT'}{size}"


def _show_entry(entry: variable_map.Entry) -> str:
    fields = dataclasses.asdict(entry)
    shown = [
        f"{key} {value}" for key, value in fields.items() if key not in ("new", "old") and value
    ]
    return "; ".join(shown)
