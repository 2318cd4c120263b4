import collections
import functools

import numpy as np
import pytest

from quintain import errors
from quintain.search import (
    adaptive,
    asha,
    base_search,
    halving,
    pbt,
    random_search,
    rungs,
    searcher,
    simulate,
)
from quintain.search import space as space_lib

SPACE = space_lib.Space.parse({"x": {"type": "double", "minval": 0, "maxval": 1, "count": 5}})


def run(build, metric_fn=None, seed=1, **arguments):
    """Simulates a search; by default the metrics are drawn at random."""
    random = np.random.RandomState(99)
    method = build(SPACE, np.random.RandomState(seed), **arguments)
    return simulate.simulate(
        searcher.Searcher(method), metric_fn or (lambda name, length: random.random_sample())
    )


def test_single_trains_one_trial_to_the_end():
    result = run(random_search.RandomSearch, max_length=5, max_trials=1)

    assert collections.Counter(result.lengths.values()) == {5: 1}


def test_random_keeps_to_its_concurrency():
    result = run(random_search.RandomSearch, max_length=5, max_trials=20, max_concurrent_trials=3)

    assert collections.Counter(result.lengths.values()) == {5: 20}
    assert result.max_open == 3


def test_grid_tries_every_point_once_in_order():
    result = run(random_search.GridSearch, max_length=2, max_concurrent_trials=2)

    assert [point["x"] for point in result.hparams.values()] == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_a_grid_that_is_too_large_is_refused():
    space = space_lib.Space.parse(
        {"x": {"type": "double", "minval": 0, "maxval": 1, "count": 2001}}
    )

    with pytest.raises(errors.ConfigError, match="2,001 points, expected at most 2,000"):
        random_search.GridSearch(space, np.random.RandomState(0), max_length=1)


# T=16, d=4, R=3, B=160; the numbers of trials by the length they reach.
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("aggressive", {1: 48, 4: 12, 16: 4}),
        ("standard", {1: 24, 4: 6 + 9, 16: 2 + 2}),
        ("conservative", {1: 16, 4: 4 + 6, 16: 1 + 1 + 3}),
    ],
)
def test_adaptive_splits_its_budget_over_brackets(mode, expected):
    result = run(
        adaptive.build_adaptive, max_length=16, budget=160, mode=mode, divisor=4, max_rungs=3
    )

    assert collections.Counter(result.lengths.values()) == expected


def test_halving_by_budget_stops_most_trials_early():
    plan = halving.plan_by_budget(800, 480, 4, 4)
    result = run(lambda space, random: halving.HalvingSearch(space, random, plan))

    assert collections.Counter(result.lengths.values()) == {12: 9, 50: 1, 800: 1}


@pytest.mark.parametrize(
    ("num_rungs", "num_trials", "expected"),
    [
        (5, 6, [(1, 6), (2, 1), (6, 1), (25, 1), (100, 1)]),
        (4, 5, [(1, 5), (6, 1), (25, 1), (100, 1)]),
        (3, 5, [(6, 5), (25, 1), (100, 1)]),
    ],
)
def test_adaptive_simple_plans_its_rungs(num_rungs, num_trials, expected):
    plan = halving.plan_by_trials(100, num_trials, 4, num_rungs)

    assert [(rung.length, rung.num_trials) for rung in plan] == expected


def test_adaptive_simple_shares_trials_over_brackets():
    result = run(adaptive.build_adaptive_simple, max_length=100, max_trials=16)

    assert len(result.lengths) == 16
    assert collections.Counter(result.lengths.values())[100] == 3


@pytest.mark.parametrize(
    ("max_trials", "divisor", "brackets", "expected"),
    [
        (20, 3, [3, 2, 1], [12, 5, 3]),
        (50, 3, [4, 3], [35, 15]),
        (50, 4, [3, 2], [37, 13]),
        (100, 4, [4, 3, 2], [70, 22, 8]),
        (500, 4, [5, 4, 3], [354, 110, 36]),
    ],
)
def test_adaptive_asha_shares_trials_by_weight(max_trials, divisor, brackets, expected):
    assert adaptive.share_trials(max_trials, divisor, brackets) == expected


def test_adaptive_asha_has_as_many_rungs_as_length_and_trials_allow():
    method = adaptive.build_adaptive_asha(
        SPACE, np.random.RandomState(1), max_length=937, max_trials=16
    )

    rungs = [[rung.length for rung in search.rungs] for search in method.searches]
    assert rungs == [[58, 234, 937], [234, 937]]
    assert [search.max_trials for search in method.searches] == [12, 4]


@pytest.mark.parametrize("stop_once", [False, True])
def test_asha_trains_just_its_number_of_trials(stop_once):
    result = run(
        functools.partial(asha.build_asha, stop_once=stop_once),
        num_rungs=3,
        max_length=16,
        max_trials=64,
        max_concurrent_trials=8,
    )

    counts = collections.Counter(result.lengths.values())
    assert sum(counts.values()) == 64
    assert set(counts) == {1, 4, 16}
    assert counts[16] >= (1 if stop_once else 4)
    assert all(lengths == sorted(lengths) for lengths in result.validations.values())


def test_asha_promotes_a_newcomer_among_the_best():
    rung = rungs.Rung(1)
    promoted = [
        rung.choose_promotion(name, metric, lambda count: count // 2)
        for name, metric in [("a", 3.0), ("b", 2.0), ("c", 1.0), ("d", 4.0), ("e", 0.5)]
    ]

    # Of two the better one goes; of four the best two; of five still two, and "e" is the best.
    assert promoted == [None, "b", "c", None, "e"]


def test_asha_promotes_one_that_waited_when_there_is_room():
    rung = rungs.Rung(1)
    promoted = [
        rung.choose_promotion(name, metric, lambda count: count // 2)
        for name, metric in [("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", 4.0)]
    ]

    assert promoted == [None, "a", None, "b"]


@pytest.mark.parametrize("reason", list(base_search.ExitReason))
@pytest.mark.parametrize(
    "build",
    [
        lambda s, r: random_search.RandomSearch(s, r, max_length=4, max_trials=12),
        lambda s, r: random_search.GridSearch(s, r, max_length=4, max_concurrent_trials=2),
        lambda s, r: asha.AshaSearch(s, r, num_rungs=3, max_length=16, max_trials=20),
        lambda s, r: asha.AshaStoppingSearch(s, r, num_rungs=3, max_length=16, max_trials=20),
        lambda s, r: adaptive.build_adaptive_asha(s, r, max_length=64, max_trials=20),
        lambda s, r: adaptive.build_adaptive(s, r, max_length=16, budget=160),
        lambda s, r: pbt.PbtSearch(
            s,
            r,
            population_size=6,
            num_rounds=4,
            length_per_round=2,
            truncate_fraction=0.4,
            resample_probability=0.2,
            perturb_factor=0.2,
        ),
    ],
)
def test_every_search_ends_when_trials_fail_at_random(build, reason):
    """A third of the validations are failures; the search must neither hang nor repeat itself."""
    chance = np.random.RandomState(3)
    search = searcher.Searcher(build(SPACE, np.random.RandomState(1)))
    queue, ended = list(search.start()), set()
    for _ in range(5000):
        operation = queue.pop(0)
        name = getattr(operation, "request_id", None)
        assert name not in ended, "an operation on a trial that has ended"
        if isinstance(operation, base_search.Shutdown):
            break
        if isinstance(operation, base_search.Validate):
            if chance.random_sample() < 0.33:
                event = searcher.ExitedEarly(name, reason)
                queue = [part for part in queue if getattr(part, "request_id", None) != name]
                ended.add(name)
            else:
                event = searcher.Validated(name, chance.random_sample(), 1000)
        elif isinstance(operation, base_search.Checkpoint):
            event = searcher.Checkpointed(name)
        elif isinstance(operation, base_search.Close):
            event = searcher.Closed(name)
            ended.add(name)
        else:
            continue
        queue += search.record(event)

    assert search.is_over
    assert search.progress(0) == 1.0


def test_a_search_whose_trials_all_fail_has_failed():
    method = random_search.RandomSearch(SPACE, np.random.RandomState(1), max_length=1, max_trials=1)
    search = searcher.Searcher(method)
    name = search.start()[0].request_id

    operations = search.record(searcher.ExitedEarly(name, base_search.ExitReason.ERRORED))

    assert operations == [base_search.Shutdown(has_failed=True)]


def test_invalid_points_are_drawn_again_by_random_search():
    method = random_search.RandomSearch(
        SPACE, np.random.RandomState(1), max_length=1, max_trials=2, max_concurrent_trials=1
    )
    search = searcher.Searcher(method)
    first = search.start()[0].request_id

    operations = search.record(searcher.ExitedEarly(first, base_search.ExitReason.INVALID_HP))

    assert isinstance(operations[0], base_search.Create)
    assert operations[0].hparams != {}


def test_pbt_replaces_the_worst_by_copies_of_the_best():
    metrics = {}

    def metric_fn(name, length):
        return metrics.setdefault(name, float(len(metrics)))

    result = run(
        pbt.PbtSearch,
        metric_fn,
        population_size=4,
        num_rounds=3,
        length_per_round=5,
        truncate_fraction=0.25,
        resample_probability=0.0,
        perturb_factor=0.2,
    )

    # One of four is replaced after each of the first two rounds.
    names = list(result.lengths)
    assert len(names) == 6
    assert set(result.parents.values()) == {names[0]}
    assert result.lengths[names[0]] == 15
    assert result.lengths[names[3]] == 5
    child, parent = names[4], names[0]
    ratio = result.hparams[child]["x"] / result.hparams[parent]["x"]
    assert ratio == pytest.approx(0.8) or ratio == pytest.approx(1.2) or ratio < 1.2


def test_the_names_and_seeds_of_trials_follow_from_the_seed():
    first = random_search.RandomSearch(SPACE, np.random.RandomState(7), max_length=1, max_trials=3)
    second = random_search.RandomSearch(SPACE, np.random.RandomState(7), max_length=1, max_trials=3)

    assert first.start() == second.start()


def test_the_random_numbers_are_those_that_the_platform_promises():
    random = searcher.new_random(999)

    drawn = [int(random.randint(0, 2**31)) for _ in range(3)]

    assert drawn == [1303213504, 648491356, 118207333]
    assert int(searcher.new_random(999).randint(0, 2**60 - 10)) == 985573361606668636


def test_metrics_that_are_no_numbers_are_the_worst():
    assert base_search.to_signed(float("nan"), smaller_is_better=False) == base_search.WORST_METRIC
    assert base_search.to_signed(2.0, smaller_is_better=False) == -2.0
    assert base_search.to_signed(2.0, smaller_is_better=True) == 2.0


def test_an_event_of_an_unknown_trial_is_an_error():
    method = random_search.RandomSearch(SPACE, np.random.RandomState(1), max_length=1, max_trials=1)
    search = searcher.Searcher(method)
    search.start()

    with pytest.raises(errors.QuintainError, match="no open trial"):
        search.record(searcher.Closed("x"))


@pytest.mark.slow
def test_ten_thousand_trials_are_no_work():
    result = run(
        asha.AshaSearch, num_rungs=5, max_length=256, max_trials=10_000, max_concurrent_trials=16
    )

    assert len(result.lengths) == 10_000


def test_of_equal_metrics_that_of_the_older_trial_is_the_better_one():
    rung = rungs.Rung(1, order={"old": 0, "new": 1})
    assert rung.insert("new", 0.5) == 0
    assert rung.insert("old", 0.5) == 0
    assert rung.request_ids == ["old", "new"]
