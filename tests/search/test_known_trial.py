import math

import numpy as np
import pytest

from quintain import errors
from quintain.records.config import experiment_spec
from quintain.search import base_search, known_trial, search_factory, searcher, simulate
from quintain.search import space as space_lib

SPACE = {
    "x": {"type": "double", "minval": -1, "maxval": 1, "count": 3},
    "kind": {"type": "categorical", "vals": ["a", "b"]},
    "fixed": 3,
}
SEARCHERS = {
    "random": {"max_length": 16, "max_trials": 20},
    "grid": {"max_length": 16},
    "tpe": {"max_length": 16, "max_trials": 20},
    "gp": {"max_length": 16, "max_trials": 20},
    "multi_objective": {
        "max_length": 16,
        "max_trials": 20,
        "further_objectives": [{"metric": "size"}],
    },
    "auto": {"max_length": 16, "max_trials": 20},
    "async_halving": {"max_length": 16, "max_trials": 20},
    "adaptive_asha": {"max_length": 16, "max_trials": 20},
    "adaptive_simple": {"max_length": 16, "max_trials": 20},
    "adaptive": {"max_length": 16, "budget": 200},
    "sync_halving": {"max_length": 16, "budget": 200},
}


def parse(name, **fields):
    searcher = {"name": name, "metric": "loss", "replicate": "none", **SEARCHERS[name], **fields}
    return experiment_spec.parse(
        {
            "hyperparameters": SPACE,
            "searcher": searcher,
            "reproducibility": {"experiment_seed": 7},
        }
    )


def build_history(count=12, *, further=False, lengths=(1, 4, 16)):
    """Returns trials that are the better, the nearer x is to 0.5."""
    random = np.random.RandomState(5)
    points = [space_lib.Space.parse(SPACE).sample(random) for _ in range(count)]
    return [
        known_trial.KnownTrial(
            f"known-{number}",
            point,
            tuple((length, (point["x"] - 0.5) ** 2 + 1 / length) for length in lengths),
            (abs(point["x"]),) if further else (),
        )
        for number, point in enumerate(points)
    ]


def play(search):
    """Returns the points that a search tries, with what each was trained for."""
    result = simulate.Simulation()
    search.method.note_further = lambda *_: None
    done = simulate.simulate(
        search, lambda name, length: (result.hparams[name]["x"] - 0.5) ** 2 + 1 / length, result
    )
    return [(done.hparams[name], length) for name, length in done.lengths.items()]


def list_points(operations):
    return [one.hparams for one in operations if isinstance(one, base_search.Create)]


def start_fresh(config, space, history, *seeds):
    """Returns the first points of a method that begins with a history."""
    method = search_factory.build_method(
        config.searcher, space_lib.Space.parse(space), searcher.new_random(*seeds)
    )
    method.learn(history)
    return list_points(method.start())


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHERS)
def test_a_rewound_search_goes_on_as_a_fresh_one_with_its_history(name):
    history = build_history(further=name == "multi_objective")
    inherited = list(range(1, len(history) + 1))
    rewound = search_factory.build_searcher(parse(name, inherited=inherited))
    rewound.learn(history)
    smaller = {"max_trials": 8} if "max_trials" in SEARCHERS[name] else {}
    fresh = start_fresh(parse(name, **smaller), SPACE, history, 7, len(history))
    parent = list_points(search_factory.build_searcher(parse(name)).start())

    proposed = list_points(rewound.start())

    assert proposed == fresh
    assert name == "grid" or proposed[0] != parent[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SEARCHERS if name != "multi_objective"])
def test_every_search_comes_to_its_end_with_what_it_knows(name):
    for lengths in ((1, 4, 16), (16,), (2,)):
        search = search_factory.build_searcher(parse(name))
        search.learn(build_history(lengths=lengths))
        tried = play(search)
        assert search.is_over, lengths
        assert search.left(0) == 0, lengths
        assert name in ("grid", "adaptive", "sync_halving") or len(tried) == 20, lengths


def test_max_trials_counts_inherited_trials():
    search = search_factory.build_searcher(parse("random", inherited=[1, 2, 3]))
    search.learn(build_history(3))

    assert len(list_points(search.start())) == 17
    with pytest.raises(errors.StateError, match="got 20, expected more than the present 20"):
        search.check_extension(20)
    assert len(list_points(search.extend(22))) == 2


@pytest.mark.parametrize("name", ["tpe", "gp"])
@pytest.mark.slow
def test_a_model_that_knows_earlier_trials_proposes_good_points_at_once(name):
    search = search_factory.build_searcher(parse(name))
    search.learn(build_history(30))

    tried = [point["x"] for point in list_points(search.start())]

    assert np.mean(np.abs(np.array(tried) - 0.5)) < 0.45


def test_a_grid_leaves_out_what_was_trained_to_the_end():
    search = search_factory.build_searcher(parse("grid"))
    points = list(space_lib.Space.parse(SPACE).grid())
    long, short = ((16, 0.1),), ((4, 0.1),)
    history = [
        known_trial.KnownTrial("a", points[0], long),
        known_trial.KnownTrial("b", points[1], short),
    ]
    search.learn(history)

    assert list_points(search.start()) == points[1:]
    whole = search_factory.build_searcher(parse("grid"))
    with pytest.raises(errors.ConfigError, match="have tried every point of the grid"):
        whole.learn([known_trial.KnownTrial(str(point), point, long) for point in points])


@pytest.mark.parametrize("is_good", [True, False])
@pytest.mark.parametrize("name", ["async_halving", "sync_halving"])
def test_earlier_trials_compete_with_new_ones_at_their_length(name, is_good):
    metric = -1.0 if is_good else math.inf
    history = [
        known_trial.KnownTrial(str(number), {"x": 0.0, "kind": "a", "fixed": 3}, ((1, metric),))
        for number in range(40)
    ]
    search = search_factory.build_searcher(parse(name))
    search.learn(history)

    longest = [length for _, length in play(search)]

    assert (max(longest) == 1) == is_good


@pytest.mark.parametrize("name", ["single", "pbt"])
def test_a_method_without_history_says_so(name):
    sizes = {"population_size": 4, "num_rounds": 3, "length_per_round": 2}
    fields = {"max_length": 4} if name == "single" else sizes
    searcher_fields = {"name": name, "metric": "loss", "learn_from": [3], **fields}

    with pytest.raises(errors.ConfigError, match="can't use earlier trials; leave it out"):
        experiment_spec.parse({"hyperparameters": SPACE, "searcher": searcher_fields})


def test_a_replicated_search_hands_history_to_its_method():
    search = search_factory.build_searcher(
        parse("tpe", replicate={"top": 2}, inherited=[1, 2, 3], num_startup_trials=2)
    )
    search.learn(build_history(3))

    assert search.method.uses_results
    assert len(list_points(search.start())) == 4
    tried = play(search_factory.build_searcher(parse("tpe", replicate={"top": 2})))
    assert len(tried) == 20


def test_values_that_another_space_gave_are_checked():
    space = space_lib.Space.parse(
        {
            "x": {"type": "double", "minval": 0, "maxval": 1},
            "depth": {"type": "int", "minval": 1, "maxval": 3, "when": {"kind": "a"}},
            "kind": {"type": "categorical", "vals": ["a", "b"]},
            "fixed": 3,
        }
    )

    assert space.accept_point({"x": 1, "kind": "b"}) == ({"x": 1.0, "kind": "b", "fixed": 3}, [])
    for point, name, why in (
        ({"x": 2.0, "kind": "b"}, "x", "got 2.0, expected"),
        ({"x": 1.0, "kind": "a"}, "depth", "no value"),
        ({"x": 1.0, "kind": "b", "y": 3}, "y", "no such name"),
        ({"x": 1.0, "kind": "b", "fixed": 4}, "fixed", "a constant"),
    ):
        ((found, message),) = space.accept_point(point)[1]
        assert found == name
        assert why in message
