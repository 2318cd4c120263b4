import pytest

from quintain import errors
from quintain.records.config import experiment_spec
from quintain.search import auto, search_factory, simulate

X = {"x": {"type": "double", "minval": 0, "maxval": 1}}


def parse(**fields):
    searcher = {"name": "auto", "metric": "loss", "max_length": {"batches": 100}, **fields}
    return experiment_spec.parse(
        {"searcher": searcher, "hyperparameters": X, "reproducibility": {"experiment_seed": 1}}
    )


@pytest.mark.parametrize(
    ("fields", "method", "max_trials", "reason"),
    [
        ({"max_trials": 64}, "gp", 64, "64 full trials are enough to learn from"),
        ({"max_trials": 12}, "random", 12, "too few"),
        ({"max_trials": 64, "max_concurrent_trials": 33}, "random", 64, "33 of 64 trials at once"),
        ({"max_trials": 64, "max_concurrent_trials": 32}, "tpe", 64, "32 of 64 trials at once"),
        ({"max_trials": 64, "max_concurrent_trials": 8}, "gp", 64, "64 full trials"),
        ({"max_trials": 500}, "tpe", 500, "too many for a Gaussian process"),
        ({"max_trials": 20_000}, "random", 20_000, "too many for a model"),
        ({"budget": 700}, "async_halving", 45, "for the cost of 7 full ones"),
        ({"budget": 800}, "adaptive_asha", 35, "for the cost of 8 full ones"),
        ({"budget": 1200}, "adaptive_asha", 116, "for the cost of 12 full ones"),
        ({"budget": 1200, "max_trials": 40}, "adaptive_asha", 40, "for the cost of 12 full ones"),
        ({"budget": 2300}, "adaptive_asha", 221, "for the cost of 23 full ones"),
        ({"budget": 2400}, "gp", 24, "24 full trials"),
        ({"budget": 6400, "max_trials": 64}, "gp", 64, "64 full trials"),
        ({"budget": 60, "max_length": 3}, "gp", 20, "20 full trials"),
    ],
)
def test_the_method_follows_from_budget_length_and_parallelism(fields, method, max_trials, reason):
    searcher = search_factory.settle(parse(**fields)).searcher

    assert (searcher.method, searcher.max_trials, searcher.budget) == (method, max_trials, 0)
    assert reason in searcher.reason
    assert auto.describe(searcher) == f"auto chose {method}: {searcher.reason}."


def test_a_choice_that_was_made_is_kept():
    settled = search_factory.settle(parse(max_trials=64))
    larger = experiment_spec.parse(
        settled.replace(searcher={"max_trials": 500, "max_concurrent_trials": 500}).as_dict()
    )

    assert search_factory.settle(larger).searcher.method == "gp"
    assert search_factory.build_searcher(larger).method.method.max_trials < 500


@pytest.mark.parametrize("fields", [{"max_trials": 20}, {"budget": 1200}, {"max_trials": 5}])
def test_a_settled_search_is_the_one_of_the_chosen_method(fields):
    settled = search_factory.settle(parse(replicate="none", **fields))
    chosen = settled.searcher
    same = {"name": chosen.method, "max_trials": chosen.max_trials}
    plain = experiment_spec.parse(
        {
            "searcher": {"metric": "loss", "max_length": 100, "replicate": "none", **same},
            "hyperparameters": X,
            "reproducibility": {"experiment_seed": 1},
        }
    )

    def play(config):
        done = simulate.Simulation()
        search = search_factory.build_searcher(config)
        return simulate.simulate(search, lambda name, _: done.hparams[name]["x"], done)

    assert play(settled) == play(plain) == play(parse(replicate="none", **fields))


@pytest.mark.parametrize(("max_trials", "top"), [(15, 0), (24, 4)])
def test_it_has_as_many_finalists_as_the_chosen_method(max_trials, top):
    settled = search_factory.settle(parse(max_trials=max_trials)).searcher
    chosen = search_factory.settle(parse(name=settled.method, max_trials=max_trials)).searcher

    assert settled.replicate.top == chosen.replicate.top == top


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, r"searcher\.max_trials: missing; expected it, or a budget, or both"),
        ({"budget": 50}, r"searcher\.budget: got 50, expected at least max_length=100"),
        ({"method": "gp"}, r"searcher\.max_trials: missing; expected it beside method='gp'"),
        (
            {"method": "gp", "max_trials": 1001},
            r"searcher\.max_trials: got 1,001, expected",
        ),
        ({"method": "pbt", "max_trials": 9}, r"searcher\.method: got 'pbt'"),
        ({"max_trials": 9, "max_length": 0}, r"searcher\.max_length: missing"),
    ],
)
def test_a_search_without_a_size_is_refused(fields, message):
    with pytest.raises(errors.ConfigError, match=message):
        parse(**fields)
