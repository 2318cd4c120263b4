import functools
import importlib
import inspect

import pytest

from quintain import errors
from quintain.records.config import experiment_spec, searcher_config
from quintain.search import base_search, search_factory, simulate

SEARCHERS = {
    "single": {"max_length": {"batches": 10}},
    "random": {"max_length": {"batches": 10}, "max_trials": 4},
    "grid": {"max_length": {"batches": 10}, "max_concurrent_trials": 2},
    "adaptive": {"target_trial_steps": 16, "step_budget": 160, "max_rungs": 3},
    "adaptive_simple": {"max_steps": 100, "max_trials": 16},
    "sync_halving": {"target_trial_steps": 16, "step_budget": 160, "num_rungs": 3},
    "async_halving": {"max_length": {"batches": 16}, "max_trials": 12, "num_rungs": 2},
    "adaptive_asha": {"max_length": {"batches": 937}, "max_trials": 16},
    "pbt": {
        "population_size": 4,
        "num_rounds": 3,
        "steps_per_round": 2,
        "replace_function": {"truncate_fraction": 0.25},
        "explore_function": {"resample_probability": 0.2, "perturb_factor": 0.2},
    },
    "tpe": {"max_length": {"batches": 16}, "max_trials": 12, "num_rungs": 2},
    "gp": {"max_length": {"batches": 16}, "max_trials": 14},
    "auto": {"max_length": {"batches": 64}, "budget": 400},
}


def build(name, seed=7, **fields):
    return search_factory.build_searcher(
        experiment_spec.parse(
            {
                "hyperparameters": {
                    "x": {"type": "double", "minval": -1, "maxval": 1, "count": 3},
                    "kind": {"type": "categorical", "vals": ["a", "b"]},
                    "fixed": 3,
                },
                "searcher": {"name": name, "metric": "loss", **SEARCHERS[name], **fields},
                "reproducibility": {"experiment_seed": seed},
            }
        )
    )


def run(name, most_ready=None, **fields):
    """Simulates a search for x = 0.5; more training gives slightly better metrics."""
    search = build(name, **fields)
    search.start = functools.partial(search.start, most_ready)
    result = simulate.Simulation()
    return simulate.simulate(
        search, lambda name, length: (result.hparams[name]["x"] - 0.5) ** 2 + 1 / length, result
    )


@pytest.mark.parametrize("name", SEARCHERS)
def test_the_first_trial_has_what_the_user_guesses(name):
    prior = {"center": 0.25, "confidence": "high"}
    config = {
        "hyperparameters": {
            "x": {"type": "double", "minval": -1, "maxval": 1, "count": 3, "prior": prior},
        },
        "searcher": {"name": name, "metric": "loss", **SEARCHERS[name]},
        "reproducibility": {"experiment_seed": 7},
    }
    if name == "grid":
        with pytest.raises(errors.ConfigError, match=r"hyperparameters\.x\.prior: a grid"):
            search_factory.build_searcher(experiment_spec.parse(config))
        return
    result = simulate.simulate(
        search_factory.build_searcher(experiment_spec.parse(config)), lambda *_: 1.0
    )

    drawn = [point["x"] for point in result.hparams.values()]
    assert drawn[0] == 0.25
    # Half of the others are within two deviations, of 0.1.
    assert name == "single" or sum(abs(x - 0.25) < 0.2 for x in drawn) >= 2


@pytest.mark.parametrize("name", ["random", "grid", "sync_halving", "adaptive_simple"])
def test_a_search_that_may_hold_few_trials_ready_tries_as_many(name):
    free = run(name)
    bounded = run(name, most_ready=2)

    assert len(bounded.hparams) == len(free.hparams)
    assert bounded.total_length == free.total_length
    creates = [each for each in build(name).start(2) if isinstance(each, base_search.Create)]
    assert len(creates) == 2 * (3 if name == "adaptive_simple" else 1)  # It has three brackets.
    if name != "adaptive_simple":  # Its brackets draw from one source, in turns.
        assert list(bounded.hparams.values()) == list(free.hparams.values())


def test_a_search_by_a_model_may_hold_few_trials_ready_as_well():
    search = build("tpe", max_concurrent_trials=10)

    creates = [each for each in search.start(2) if isinstance(each, base_search.Create)]

    assert len(creates) == 2


@pytest.mark.parametrize(
    ("name", "field", "most"),
    [("pbt", "population_size", 10_000), ("tpe", "max_trials", 10_000), ("gp", "max_trials", 1000)],
)
def test_a_search_that_would_hold_the_master_for_long_is_refused(name, field, most):
    with pytest.raises(errors.ConfigError, match=rf"searcher\.{field}: .* <= {most}"):
        build(name, **{field: most + 1})


@pytest.mark.parametrize("name", SEARCHERS)
def test_every_search_runs_to_its_end_from_its_config(name):
    result = run(name)

    assert result.total_length > 0
    assert all(point["fixed"] == 3 for point in result.hparams.values())
    assert (
        len(result.hparams)
        == {
            "single": 1,
            "random": 4,
            "grid": 6,
            "adaptive": 43,
            "adaptive_simple": 16,
            "sync_halving": 64,
            "async_halving": 12,
            "adaptive_asha": 16,
            "pbt": 6,
            "tpe": 12,
            "gp": 14,
            "auto": 40,
        }[name]
    )


@pytest.mark.parametrize("name", SEARCHERS)
def test_the_same_seed_gives_the_same_search(name):
    first, second, other = run(name), run(name), run(name, seed=8) if name != "grid" else None

    assert first == second
    assert other is None or list(other.hparams) != list(first.hparams)


def test_bayesian_search_finds_better_points_than_chance():
    tpe = run("tpe", max_trials=60, num_rungs=1, max_length={"batches": 4})
    chance = run("random", max_trials=60, max_length={"batches": 4}, max_concurrent_trials=4)

    def late_distance(result):
        return sum(abs(point["x"] - 0.5) for point in list(result.hparams.values())[20:])

    assert late_distance(tpe) < 0.5 * late_distance(chance)


@pytest.mark.parametrize("name", searcher_config.SEARCHERS)
def test_every_method_takes_the_fields_of_its_config(name):
    shared = searcher_config.SearcherConfig().as_dict()
    config = searcher_config.SEARCHERS[name]()

    module, _, builder = config.METHOD.partition(":")
    method = importlib.import_module(f"quintain.search.{module}")
    build = getattr(method, builder)
    taken = inspect.signature(build).parameters.keys() - {"space", "random"}
    if "sizes" in taken:
        taken = taken - {"sizes"} | method.Sizes.__annotations__.keys()

    fields = {field: value for field, value in config.as_dict().items() if field not in shared}
    sections = [value for value in fields.values() if isinstance(value, dict)]
    plain = {field for field, value in fields.items() if not isinstance(value, dict)}
    assert plain.union(*sections) == taken
