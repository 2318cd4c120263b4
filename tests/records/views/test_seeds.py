import math

import numpy as np
import pytest
import scipy.stats

from quintain.records.rows import states, trial
from quintain.records.views import seeds


@pytest.mark.parametrize("probability", [0.95, 0.975])
def test_quantiles_are_those_of_student_or_a_little_more(probability):
    for freedom in range(1, 31):
        exact = scipy.stats.t.ppf(probability, freedom)
        assert exact <= seeds.find_quantile(freedom, probability) < exact + 0.002


def test_two_settings_are_compared_by_the_paired_test():
    random = np.random.RandomState(1)
    ours, theirs = random.rand(2, 5) + random.rand(5)
    exact = scipy.stats.ttest_rel(theirs, ours).confidence_interval()

    gap = seeds.compare(dict(enumerate(ours)), dict(enumerate(theirs)), smaller_is_better=True)

    assert (gap.num_seeds, gap.is_paired) == (5, True)
    assert gap.mean == pytest.approx(np.mean(theirs - ours))
    assert (gap.low, gap.high) == pytest.approx(tuple(exact), rel=1e-3)


def test_settings_without_common_seeds_are_compared_by_the_test_of_welch():
    random = np.random.RandomState(1)
    ours, theirs = random.rand(4), 3 * random.rand(6)
    exact = scipy.stats.ttest_ind(theirs, ours, equal_var=False).confidence_interval()

    gap = seeds.compare(
        dict(enumerate(ours)), {10 + key: one for key, one in enumerate(theirs)},
        smaller_is_better=True,
    )  # fmt: skip

    assert (gap.num_seeds, gap.is_paired) == (4, False)
    # Whole degrees of freedom make it a little wider.
    assert gap.low <= exact.low
    assert gap.high >= exact.high
    assert gap.high - gap.low == pytest.approx(exact.high - exact.low, rel=0.1)


def test_noise_is_what_settings_and_seeds_leave_unexplained():
    random = np.random.RandomState(2)
    settings, columns = np.arange(40.0)[:, None], random.rand(50)
    rows = settings + 100 * columns + 0.5 * random.standard_normal((40, 50))

    noise = seeds.Noise.of(rows.tolist())

    assert noise.freedom == 39 * 49
    assert noise.deviation == pytest.approx(0.5, rel=0.05)


@pytest.mark.slow
def test_intervals_hold_what_they_promise():
    """Of many comparisons of settings that are equally good, about 5 % are called clear."""
    random = np.random.RandomState(3)
    clear = 0
    for _ in range(2000):
        rows = [dict(enumerate(row)) for row in random.standard_normal((4, 2))]
        clear += seeds.compare(*rows[:2], rows[2:], smaller_is_better=True).is_clear

    assert 0.035 < clear / 2000 < 0.065


def test_a_tie_says_how_many_more_seeds_would_decide_it():
    ours, theirs = {1: 0.90, 2: 0.95, 3: 0.91}, {1: 0.89, 2: 0.96, 3: 0.88}
    gap = seeds.compare(ours, theirs, smaller_is_better=False)
    more = scipy.stats.t.ppf(0.975, 3 + gap.num_more - 1)
    deviation = np.std([0.01, -0.01, 0.03], ddof=1)

    assert gap.mean == pytest.approx(0.01)
    assert not gap.is_clear
    assert more * deviation / math.sqrt(3 + gap.num_more) < 0.01
    text = gap.describe(lambda value: f"{value:.3f}")
    assert text.startswith("0.010 better by 3 paired seeds (95 %: -0.040 to 0.060), a tie; about ")


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ({1: 1.0}, {1: 2.0}, "1 better by 1 seed; it takes two of each to know whether by chance"),
        ({1: 1.0, 2: 1.0}, {1: 1.0, 2: 1.0}, "0 better by 2 paired seeds (95 %: 0 to 0), a tie"),
        ({1: 1.0, 2: 1.0}, {3: 3.0, 4: 3.0}, "2 better by 2 seeds (95 %: 2 to 2)"),
    ],
)
def test_what_seeds_say_is_said_in_words(ours, theirs, expected):
    gap = seeds.compare(ours, theirs, smaller_is_better=True)

    assert gap.describe(lambda value: f"{value:g}") == expected


def test_contenders_are_all_that_may_be_the_best():
    rows = {"a": [1.0, 1.1], "b": [1.1, 1.05], "c": [3.0, 3.2], "d": [1.0, math.inf]}

    assert seeds.find_contenders(rows) == ["a", "b"]
    assert seeds.find_contenders({"d": [math.inf]}) == ["d"]


def make_trial(number, request_id, metric, seed):
    return trial.TrialRecord(
        number, 1, request_id, states.TrialState.COMPLETED, {"x": number}, seed, best_metric=metric
    )


TRIALS = [
    make_trial(1, "lucky", 0.1, 11),
    make_trial(2, "good", 0.3, 12),
    make_trial(3, "loser", 0.2, 13),
    make_trial(4, "alone", 0.05, 14),
    make_trial(5, "lucky+1", 0.6, 1),
    make_trial(6, "good+1", 0.31, 1),
    make_trial(7, "loser+1", 0.2, 1),
    make_trial(8, "lucky+2", 0.5, 2),
    make_trial(9, "good+2", 0.45, 2),
    make_trial(10, "failed", None, 15),
]


def test_further_seeds_decide_and_not_the_lucky_first_ones():
    ranked = seeds.rank_settings(TRIALS, {})

    assert [[one.id for one in setting.trials] for setting in ranked] == [
        [2, 6, 9], [1, 8, 5], [3, 7], [4],
    ]  # fmt: skip
    assert ranked[0].values == {1: 0.31, 2: 0.45}
    assert seeds.find_best(TRIALS, {}).id == 2


def test_standings_say_who_leads_by_how_much():
    first, second, third, last = seeds.list_standings(TRIALS, {"metric": "loss"}, 9)

    assert (first.trial_ids, first.num_seeds) == ((2, 6, 9), 2)
    assert first.mean == pytest.approx(0.38)
    assert first.lead.text == (
        "0.17 better by 2 paired seeds (95 %: -1.355 to 1.695), a tie; about 5 more seeds of each "
        "would decide it"
    )
    assert (first.lead.trial_id, second.lead.trial_id, last.lead) == (1, 3, None)
    assert third.lead.text == "0.15 worse by 1 seed; it takes two of each to know whether by chance"
    assert (last.mean, last.low) == (0.05, None)


@pytest.mark.parametrize(("metric_of", "expected"), [("mean", 1), ("worst", 2), ("lower_bound", 2)])
def test_settings_may_be_ranked_by_their_worst_seed_or_the_end_of_the_interval(metric_of, expected):
    trials = [
        make_trial(1, "a", 0.5, 11),
        make_trial(2, "b", 0.5, 12),
        make_trial(3, "a+1", 0.9, 1),
        make_trial(4, "a+2", 0.1, 2),
        make_trial(5, "b+1", 0.6, 1),
        make_trial(6, "b+2", 0.61, 2),
    ]

    ranked = seeds.rank_settings(trials, {"metric_of": metric_of})

    assert {1: "a", 2: "b"}[expected] == ranked[0].trials[0].request_id.partition("+")[0]
