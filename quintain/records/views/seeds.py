"""Statistics over seeds: how well settings do that were trained more than once.

Source:
    Student's t over settings and seeds as a two-way layout, which is the paired test where there
    are two settings; Welch's (1947) where there are no pairs.
"""

import dataclasses
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from quintain.records.rows import trial
from quintain.records.views import metric_order

REPLICATE: Final = "+"
"""Stands between the name of a trial and the number of a further seed, in a replicate's name."""

MOST_RUNS: Final = 1000
"""Seeds of a setting beyond which nobody would decide a tie."""


def find_original(request_id: str) -> str:
    """Returns the name of the trial that another one repeats, or the trial's own.

    Example:
        >>> find_original("a+2"), find_original("a")
        ('a', 'a')
    """
    return request_id.partition(REPLICATE)[0]


_QUANTILES: Final = {
    0.95: (
        6.314, 2.920, 2.354, 2.132, 2.016, 1.944, 1.895, 1.860, 1.834, 1.813, 1.796, 1.783, 1.771,
        1.762, 1.754, 1.746, 1.740, 1.735, 1.730, 1.725, 1.721, 1.718, 1.714, 1.711, 1.709, 1.706,
        1.704, 1.702, 1.700, 1.698,
    ),
    0.975: (
        12.707, 4.303, 3.183, 2.777, 2.571, 2.447, 2.365, 2.307, 2.263, 2.229, 2.201, 2.179, 2.161,
        2.145, 2.132, 2.120, 2.110, 2.101, 2.094, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.049, 2.046, 2.043,
    ),
}  # fmt: skip
"""Quantiles of Student's t for 1 to 30 degrees of freedom, rounded up; the last for more."""


def find_quantile(freedom: float, probability: float = 0.975) -> float:
    """Returns the quantile of Student's t, or a little more.

    Args:
        freedom: Degrees of freedom, at least 1; parts of one do not count.
        probability: 0.95 or 0.975.
    """
    table = _QUANTILES[probability]
    return table[min(int(freedom), len(table)) - 1]


@dataclasses.dataclass(frozen=True)
class Noise:
    """Spread of results that only their seeds cause."""

    deviation: float
    """Standard deviation of a single result; NaN if it is not known."""

    freedom: int
    """Degrees of freedom of the estimate."""

    @classmethod
    def of(cls, rows: Sequence[Sequence[float]]) -> "Noise":
        """Estimates the noise from results of several settings.

        What a seed does to all settings alike is no noise, as it does not change their order.

        Args:
            rows: Results of each setting, in the same order of seeds.

        Example:
            >>> Noise.of([[1.0, 2.0, 4.0], [2.0, 3.0, 5.0]])
            Noise(deviation=0.0, freedom=2)
        """
        freedom = (len(rows) - 1) * (len(rows[0]) - 1) if rows else 0
        if freedom < 1:
            return cls(math.nan, 0)
        of_settings = [statistics.fmean(row) for row in rows]
        of_seeds = [statistics.fmean(column) for column in zip(*rows, strict=True)]
        middle = statistics.fmean(of_settings)
        squares = math.fsum(
            (value - of_settings[i] - of_seeds[j] + middle) ** 2
            for i, row in enumerate(rows)
            for j, value in enumerate(row)
        )
        return cls(math.sqrt(squares / freedom), freedom)

    def find_half_width(self, num_seeds: int) -> float:
        """Returns half of the 95 % interval of the difference of two settings' means."""
        if not self.freedom:
            return math.nan
        return find_quantile(self.freedom) * self.deviation * math.sqrt(2 / num_seeds)


def find_contenders(rows: Mapping[str, Sequence[float]]) -> list[str]:
    """Returns the settings that are not clearly worse than the best one.

    Args:
        rows: Results of each setting, smaller is better, in the same order of seeds. One with a
            result that is infinite, as that of a failed trial, is out unless all are.
    """
    finite = {name: row for name, row in rows.items() if all(map(math.isfinite, row))}
    if not finite:
        return list(rows)
    noise = Noise.of(list(finite.values()))
    means = {name: statistics.fmean(row) for name, row in finite.items()}
    least = min(means.values())
    reach = noise.find_half_width(len(next(iter(finite.values()))))
    return [name for name, mean in means.items() if not mean - least > reach]


@dataclasses.dataclass(frozen=True)
class Mean:
    """Mean with its 95 % interval; what is not known is NaN."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        """Returns the mean of at least one value; a single one has no interval.

        Example:
            >>> found = Mean.of([1.0, 2.0, 3.0])
            >>> found.mean, round(found.low, 2), round(found.high, 2)
            (2.0, -0.48, 4.48)
        """
        mean = statistics.fmean(values)
        if len(values) < 2 or not math.isfinite(mean):
            return cls(mean, math.nan, math.nan)
        half = find_quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
        return cls(mean, mean - half, mean + half)


@dataclasses.dataclass(frozen=True)
class Gap(Mean):
    """Lead of one setting over another one, positive if it is better."""

    num_seeds: int
    """Seeds of each that were compared; of the one with fewer, if they are not paired."""

    is_paired: bool
    """Whether these seeds are the same."""

    num_more: int | None
    """Further seeds of each that would decide, if they go on like this; None if none would."""

    @property
    def is_clear(self) -> bool:
        """True if one of the two is better, and not by chance."""
        return self.low > 0 or self.high < 0

    def describe(self, show: Callable[[float], str]) -> str:
        """Returns it for people.

        Args:
            show: Formats a value of the metric.
        """
        word = "better" if self.mean >= 0 else "worse"
        kind = " paired" if self.is_paired else ""
        seeds = f"{self.num_seeds}{kind} seed{'' if self.num_seeds == 1 else 's'}"
        found = f"{show(abs(self.mean))} {word} by {seeds}"
        if math.isnan(self.low):
            return f"{found}; it takes two of each to know whether by chance"
        sign = 1 if self.mean >= 0 else -1
        low, high = sorted((sign * self.low, sign * self.high))
        found = f"{found} (95 %: {show(low)} to {show(high)})"
        if self.is_clear:
            return found
        if self.num_more is None:
            return f"{found}, a tie"
        more = f"{self.num_more} more seed{'' if self.num_more == 1 else 's'}"
        return f"{found}, a tie; about {more} of each would decide it"


def compare(
    ours: Mapping[int, float],
    theirs: Mapping[int, float],
    others: Sequence[Mapping[int, float]] = (),
    *,
    smaller_is_better: bool,
) -> Gap:
    """Returns the lead of a setting over another one.

    Where both have at least two seeds in common, these are pairs, and all others do not count.

    Args:
        ours: Values of the setting by seed.
        theirs: Those of the other one.
        others: Those of settings that have the same noise, which tell more about it.
        smaller_is_better: Whether smaller values are better.

    Example:
        >>> gap = compare({1: 1.0, 2: 2.0}, {1: 3.0, 2: 4.0}, smaller_is_better=True)
        >>> gap.mean, gap.num_seeds, gap.is_paired, gap.is_clear
        (2.0, 2, True, True)
    """
    sign = 1 if smaller_is_better else -1
    shared = sorted(ours.keys() & theirs.keys())
    is_paired = len(shared) >= 2
    freedom: float
    if is_paired:
        ours, theirs = ({seed: each[seed] for seed in shared} for each in (ours, theirs))
        complete = [each for each in others if each.keys() >= ours.keys()]
        rows = [[each[seed] for seed in shared] for each in (ours, theirs, *complete)]
        rows = [row for row in rows if all(map(math.isfinite, row))]
        noise = Noise.of(rows)
        deviation, freedom = noise.deviation * math.sqrt(2), noise.freedom
        growth = len(rows) - 1
    else:
        deviation, freedom = _find_welch(list(ours.values()), list(theirs.values()))
        growth = 2
    count = min(len(ours), len(theirs))
    mean = sign * (statistics.fmean(theirs.values()) - statistics.fmean(ours.values()))
    if freedom < 1 or not math.isfinite(mean):
        return Gap(mean, math.nan, math.nan, count, is_paired, None)
    half = find_quantile(freedom) * deviation / math.sqrt(count)
    more = next(
        (
            number - count
            for number in range(count, MOST_RUNS)
            if find_quantile(growth * (number - 1)) * deviation < abs(mean) * math.sqrt(number)
        ),
        None,
    )
    return Gap(mean, mean - half, mean + half, count, is_paired, more)


def _find_welch(left: Sequence[float], right: Sequence[float]) -> tuple[float, float]:
    """Returns the deviation of a difference, as if of pairs, and its degrees of freedom."""
    if min(len(left), len(right)) < 2 or not all(map(math.isfinite, (*left, *right))):
        return math.nan, 0
    shares = [statistics.variance(values) / len(values) for values in (left, right)]
    total = math.fsum(shares)
    if not total:
        return 0.0, len(left) + len(right) - 2
    freedom = total**2 / math.fsum(
        share**2 / (len(values) - 1) for share, values in zip(shares, (left, right), strict=True)
    )
    # Rounding must not take a whole degree away.
    return math.sqrt(total * min(len(left), len(right))), freedom + 1e-9


@dataclasses.dataclass(frozen=True)
class Setting:
    """A trial and those that repeat it with further seeds."""

    trials: tuple[trial.TrialRecord, ...]
    """Those that have a metric, the best first."""

    values: dict[int, float]
    """Metrics by seed: of the further seeds if there are two, as a lucky first one made it a
    finalist; else of all."""

    score: float
    """What ranks it among those with as many further seeds, smaller is better."""

    num_further: int
    """Further seeds with a metric."""


def rank_settings(
    trials: Sequence[trial.TrialRecord], searcher: Mapping[str, Any]
) -> list[Setting]:
    """Returns the settings whose trials were validated, the best first.

    Those with more further seeds come first: whoever was clearly worse got fewer.

    Args:
        trials: Trials of an experiment.
        searcher: The section of this name of the experiment's config.
    """
    is_smaller_better = searcher.get("smaller_is_better", True)

    def get_signed(one: trial.TrialRecord) -> float:
        return metric_order.to_sort_key(one.best_metric, smaller_is_better=is_smaller_better)

    groups: dict[str, list[trial.TrialRecord]] = {}
    for each in trials:
        if each.best_metric is not None:
            groups.setdefault(find_original(each.request_id), []).append(each)
    ranked = []
    for group in groups.values():
        further = [one for one in group if REPLICATE in one.request_id]
        judged = further if len(further) > 1 else group
        score = _find_score([get_signed(one) for one in judged], searcher.get("metric_of", "mean"))
        values = {one.seed: float(one.best_metric or 0.0) for one in judged}
        ranked.append(Setting(tuple(sorted(group, key=get_signed)), values, score, len(further)))
    return sorted(ranked, key=lambda setting: (-setting.num_further, setting.score))


def find_best(
    trials: Sequence[trial.TrialRecord], searcher: Mapping[str, Any]
) -> trial.TrialRecord | None:
    """Returns the best trial, or None if none was validated.

    Where finalists were trained with further seeds, it is one of the setting that they chose.
    """
    ranked = rank_settings(trials, searcher)
    return ranked[0].trials[0] if ranked else None


@dataclasses.dataclass(frozen=True)
class Lead:
    """Lead of a setting over the next one; what is not known is None."""

    trial_id: int
    """Best trial of the next one."""

    mean: float
    low: float | None
    high: float | None
    num_seeds: int
    is_paired: bool
    num_more: int | None
    is_tie: bool
    text: str
    """All of this for people."""


@dataclasses.dataclass(frozen=True)
class Standing:
    """Place of a setting among those of an experiment."""

    trial_ids: tuple[int, ...]
    """Its trials, the best first."""

    num_seeds: int
    """Seeds that it is judged by."""

    mean: float
    """Mean of the searched metric over these."""

    low: float | None
    """Lower end of its 95 % interval; None if it is not known."""

    high: float | None
    lead: Lead | None = None
    """None where finalists were not trained with further seeds, and for the last one."""


def list_standings(
    trials: Sequence[trial.TrialRecord], searcher: Mapping[str, Any], top: int
) -> list[Standing]:
    """Returns the places of the best settings, and what further seeds say about them.

    Args:
        trials: Trials of an experiment.
        searcher: The section of this name of the experiment's config.
        top: How many.
    """
    ranked = rank_settings(trials, searcher)
    standings = []
    for place, setting in enumerate(ranked[:top]):
        lead = None
        if place + 1 < len(ranked) and setting.num_further:
            lead = find_lead(setting, ranked[place + 1], ranked, searcher)
        standings.append(to_standing(setting, lead))
    return standings


def to_standing(setting: Setting, lead: Lead | None = None) -> Standing:
    """Returns what the seeds of a setting say about it."""
    found = Mean.of(list(setting.values.values()))
    return Standing(
        tuple(one.id for one in setting.trials),
        len(setting.values),
        found.mean,
        _known(found.low),
        _known(found.high),
        lead,
    )


def find_lead(
    ours: Setting, theirs: Setting, peers: Sequence[Setting], searcher: Mapping[str, Any]
) -> Lead:
    """Returns the lead of a setting over another one.

    Args:
        ours: The setting.
        theirs: The other one.
        peers: Settings of the same experiment, which tell more about the noise.
        searcher: The section of this name of the experiment's config.
    """
    others = [one.values for one in peers if one.num_further and one not in (ours, theirs)]
    is_smaller_better = searcher.get("smaller_is_better", True)
    gap = compare(ours.values, theirs.values, others, smaller_is_better=is_smaller_better)
    return Lead(
        theirs.trials[0].id,
        gap.mean,
        _known(gap.low),
        _known(gap.high),
        gap.num_seeds,
        gap.is_paired,
        gap.num_more,
        not gap.is_clear,
        gap.describe(lambda value: format_metric(value, searcher)),
    )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def format_metric(value: float, searcher: Mapping[str, Any]) -> str:
    """Returns a value of the searched metric in the format that the experiment has for it.

    Example:
        >>> format_metric(0.96666, {"metric": "accuracy", "formats": {"accuracy": ".1%"}})
        '96.7%'
    """
    form = (searcher.get("formats") or {}).get(searcher.get("metric"), ".4g")
    return format(value, form)


def _find_score(values: Sequence[float], metric_of: str) -> float:
    if metric_of == "worst":
        return max(values)
    if math.inf in values:
        return math.inf
    found = Mean.of(values)
    return found.high if metric_of == "lower_bound" and len(values) > 1 else found.mean
