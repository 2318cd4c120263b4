import collections

import numpy as np
import pytest

from quintain import errors
from quintain.master import new_experiments
from quintain.records.config import experiment_spec
from quintain.search import base_search, search_factory, searcher, simulate

X = {"x": {"type": "double", "minval": 0, "maxval": 1, "count": 5}}
RANDOM = {"name": "random", "max_length": 10, "max_trials": 64}


def parse(fields, hyperparameters=X):
    return experiment_spec.parse(
        {
            "hyperparameters": hyperparameters,
            "searcher": {"metric": "loss", **fields},
            "reproducibility": {"experiment_seed": 3},
        }
    )


def settle(fields, hyperparameters=X):
    """Returns the searcher of a new experiment."""
    return new_experiments.build_config(parse(fields, hyperparameters).as_dict()).searcher


def play(fields, noise=0.05, metric_fn=None):
    """Simulates a new search for small x; returns its search and what it did."""
    search = search_factory.build_searcher(search_factory.settle(parse(fields)))
    random, result = np.random.RandomState(1), simulate.Simulation()

    def measure(name, length):
        return result.hparams[name]["x"] + noise * random.standard_normal() + 1 / length

    return search, simulate.simulate(search, metric_fn or measure, result)


def count_rounds(result):
    """Returns how many trials have no further seed, a first one, a second one..."""
    rounds = collections.Counter(name.partition("+")[2] for name in result.lengths)
    return [rounds[key] for key in sorted(rounds)]


@pytest.mark.parametrize(
    "fields",
    [
        RANDOM,
        {**RANDOM, "name": "tpe", "max_trials": 24},
        {**RANDOM, "name": "adaptive_asha", "max_length": 64, "max_trials": 300},
        {"name": "adaptive", "max_length": 64, "budget": 3000},
        {"name": "sync_halving", "max_length": 64, "budget": 3000},
    ],
    ids=lambda fields: fields["name"],
)
def test_further_seeds_take_at_most_a_third_of_the_budget_that_was_asked_for(fields):
    chosen = settle(fields).replicate
    asked = search_factory.build_searcher(parse(fields)).left(0)
    searching = settle(fields)
    with_seeds = search_factory.build_searcher(parse({**fields, **searching.as_dict()}))

    assert 2 <= chosen.top <= 8
    assert chosen.top * chosen.seeds * fields["max_length"] <= asked / 3
    assert with_seeds.left(0) <= asked * 1.01
    assert with_seeds.method.method.left() < asked


@pytest.mark.parametrize(
    ("fields", "hyperparameters"),
    [
        ({**RANDOM, "max_trials": 15}, X),
        ({**RANDOM, "replicate": "none"}, X),
        (RANDOM, {"x": 1}),
        ({"name": "single", "max_length": 10}, X),
        ({"name": "grid", "max_length": 10}, {"x": {**X["x"], "count": 100}}),
        ({"name": "adaptive_asha", "max_length": 64, "max_trials": 16}, X),
        (
            {"name": "pbt", "population_size": 20, "num_rounds": 2, "length_per_round": 1},
            X,
        ),
        ({**RANDOM, "name": "multi_objective", "further_objectives": [{"metric": "secs"}]}, X),
    ],
    ids=["few", "off", "constant", "single", "grid", "cheap", "pbt", "pareto"],
)
def test_searches_without_room_or_sense_for_it_have_no_further_seeds(fields, hyperparameters):
    assert settle(fields, hyperparameters).replicate.top == 0


def test_finalists_are_trained_again_with_the_same_seeds_and_clear_losers_only_once():
    seeds = collections.defaultdict(set)
    search = search_factory.build_searcher(search_factory.settle(parse(RANDOM)))
    start, record = search.start, search.record

    def note(operations):
        for each in operations:
            if isinstance(each, base_search.Create):
                seeds[each.request_id.partition("+")[2]].add(each.seed)
        return operations

    search.start, search.record = lambda: note(start()), lambda event: note(record(event))
    random, result = np.random.RandomState(1), simulate.Simulation()

    def measure(name, length):
        del length
        return result.hparams[name]["x"] + 0.02 * random.standard_normal()

    simulate.simulate(search, measure, result)

    first, again, twice = count_rounds(result)
    assert (first, again) == (48, 8)
    assert 2 <= twice < 8
    assert [len(seeds[key]) for key in ("", "1", "2")] == [48, 1, 1]
    assert search.progress(0) == 1
    originals = {name.partition("+")[0] for name in result.lengths if name.endswith("+2")}
    by_x = sorted((point["x"], name) for name, point in result.hparams.items() if "+" not in name)
    assert by_x[0][1] in originals
    for name, point in result.hparams.items():
        assert point == result.hparams[name.partition("+")[0]]


def test_it_stops_as_soon_as_one_is_clearly_the_best():
    first = []

    def measure(name, length):
        """The noise is small beside the lead of one setting."""
        del length
        original, _, number = name.partition("+")
        if original not in first:
            first.append(original)
        place = first.index(original)
        return (place if place else -100) + 0.1 * ((3 * place + 5 * int(number or 0)) % 7)

    _, result = play({**RANDOM, "replicate": {"seeds": 5, "top": 4}}, metric_fn=measure)

    assert count_rounds(result) == [44, 4]


@pytest.mark.parametrize("paired", [True, False])
def test_equal_events_give_equal_operations(paired):
    fields = {**RANDOM, "max_trials": 20, "replicate": {"top": 3, "paired": paired}}
    events, operations = [], []
    search = search_factory.build_searcher(parse(fields))
    record = search.record

    def keep(event):
        events.append(event)
        operations.append(record(event))
        return operations[-1]

    search.record = keep
    chance = np.random.RandomState(5)
    simulate.simulate(search, lambda *_: float(chance.random_sample()))

    again = search_factory.build_searcher(parse(fields))
    again.start()
    assert [again.record(event) for event in events] == operations
    assert any("+2" in event.request_id for event in events)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (RANDOM, [48 + 8, 8]),
        ({**RANDOM, "name": "tpe", "max_trials": 24}, [16 + 4, 4]),
        ({"name": "sync_halving", "max_length": 64, "budget": 3000}, [209, 7]),
    ],
    ids=["random", "tpe", "without_extension"],
)
def test_seeds_that_change_nothing_are_dropped_and_their_trials_given_back(fields, expected):
    search, result = play(fields, noise=0)

    assert count_rounds(result) == expected
    assert search.is_over


def test_the_log_says_that_seeds_change_nothing():
    notes = []
    search = search_factory.build_searcher(parse({**RANDOM, "replicate": {"top": 2}}))
    record = search.record

    def keep(event):
        operations = record(event)
        notes.extend(each for each in operations if isinstance(each, base_search.Note))
        return operations

    search.record = keep
    simulate.simulate(search, lambda *_: 0.5)

    assert [note.text.split(",")[0] for note in notes] == [
        "Further seeds gave the same metrics to the last bit"
    ]


def test_replicates_that_fail_put_their_setting_out_of_the_race():
    search = search_factory.build_searcher(
        parse({**RANDOM, "max_trials": 20, "replicate": {"top": 3}})
    )
    queue, number, rounds = collections.deque(search.start()), 0, collections.defaultdict(list)
    chance = np.random.RandomState(5)
    while queue:
        match queue.popleft():
            case base_search.Validate(name):
                number += 1
                rounds[name.partition("+")[2]].append(name)
                if name.endswith("+1") and len(rounds["1"]) == 1:
                    failure = base_search.ExitReason.ERRORED
                    queue.extend(search.record(searcher.ExitedEarly(name, failure)))
                else:
                    metric = chance.random_sample()
                    queue.extend(search.record(searcher.Validated(name, metric, 10)))
            case base_search.Close(name):
                queue.extend(search.record(searcher.Closed(name)))

    failed = rounds["1"][0].removesuffix("+1")
    assert len(rounds["1"]) == 3
    assert f"{failed}+2" not in rounds["2"]
    assert len(rounds["2"]) == 2
    assert search.is_over


def test_replicates_keep_to_the_trials_at_once():
    _, result = play({**RANDOM, "max_concurrent_trials": 3})

    assert result.max_open == 3
    assert count_rounds(result)[:2] == [48, 8]


def test_more_trials_mean_more_finalists_in_the_same_proportion():
    fields = {"name": "random", "max_length": 4, "max_trials": 8, "replicate": {"top": 2}}
    search = search_factory.build_searcher(parse(fields))
    names, chance = [], np.random.RandomState(2)

    def finish(operations):
        queue = collections.deque(operations)
        while queue:
            match queue.popleft():
                case base_search.Create(name):
                    names.append(name)
                case base_search.Validate(name):
                    queue.extend(search.record(searcher.Validated(name, chance.rand(), 4)))
                case base_search.Close(name):
                    queue.extend(search.record(searcher.Closed(name)))

    finish(search.start())
    assert collections.Counter("+" in name for name in names) == {False: 4, True: 4}
    with pytest.raises(errors.StateError, match="expected more than the present 8"):
        search.check_extension(8)
    search.check_extension(16)
    finish(search.extend(16))

    assert collections.Counter("+" in name for name in names)[False] == 8
    assert len(names) <= 16
    assert search.is_over


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "single", "max_length": 4}, "'single' has no finalists to train again"),
        ({**RANDOM, "max_trials": 20}, r"up to 16 trainings .* too much of max_trials=20; lower"),
        (
            {"name": "sync_halving", "max_length": 64, "budget": 800},
            r"too much of budget=800; lower top or seeds",
        ),
    ],
)
def test_further_seeds_beyond_the_budget_or_without_sense_are_refused(fields, message):
    with pytest.raises(errors.ConfigError, match=f"searcher.replicate: .*{message}"):
        search_factory.check(parse({**fields, "replicate": {}}))


def test_a_single_finalist_is_refused():
    with pytest.raises(errors.ConfigError, match=r"replicate.top: got 1, expected at least 2"):
        parse({**RANDOM, "replicate": {"top": 1}})
