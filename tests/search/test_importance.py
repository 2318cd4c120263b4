import math
import random

import pytest

from quintain import errors
from quintain.records.views import importance as importance_lib
from quintain.search import importance, space

Evaluator = importance_lib.Evaluator
SPACE = space.Space.parse(
    {
        "lr": {"type": "log", "base": 10, "minval": -4, "maxval": -1},
        "dropout": {"type": "double", "minval": 0, "maxval": 0.5},
        "optimizer": {"type": "categorical", "vals": ["adam", "sgd"]},
        "momentum": {
            "type": "double",
            "minval": 0,
            "maxval": 1,
            "when": {"optimizer": "sgd"},
        },
        "layers": {"units": {"type": "int", "minval": 8, "maxval": 64}},
        "batch_size": 32,
    }
)


def make_trials(count, measure):
    """Returns columns of drawn hyperparameters, and the metric that `measure` gives each trial."""
    draws = random.Random(1)
    rows = []
    for _ in range(count):
        optimizer = draws.choice(["adam", "sgd"])
        rows.append(
            {
                "lr": 10 ** draws.uniform(-4, -1),
                "dropout": draws.uniform(0, 0.5),
                "optimizer": optimizer,
                "momentum": draws.random() if optimizer == "sgd" else None,
                "layers.units": draws.randint(8, 64),
                "batch_size": 32,
            }
        )
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return columns, [measure(row) for row in rows]


def rank(found):
    return [name for name, _ in found.importances]


@pytest.mark.parametrize(
    "evaluator",
    [pytest.param(Evaluator.FANOVA, marks=pytest.mark.slow), Evaluator.PED_ANOVA, Evaluator.MDI],
)
def test_what_decides_comes_first(evaluator):
    hparams, metrics = make_trials(
        60, lambda row: math.log10(row["lr"]) ** 2 + 0.01 * row["dropout"]
    )

    found = importance.evaluate(hparams, metrics, SPACE, evaluator=evaluator)

    assert rank(found)[0] == "lr"
    assert sum(share for _, share in found.importances) == pytest.approx(1)
    assert set(rank(found)) == {"lr", "dropout", "optimizer", "momentum", "layers.units"}
    assert (found.num_trials, found.evaluator, found.problem) == (60, evaluator, "")


@pytest.mark.slow
def test_the_same_trials_give_the_same_answer():
    hparams, metrics = make_trials(30, lambda row: row["dropout"])

    first, second = (importance.evaluate(hparams, metrics, SPACE) for _ in range(2))

    assert first == second


def test_one_that_only_some_trials_have_is_measured_among_these():
    hparams, metrics = make_trials(
        80, lambda row: 0.5 if row["momentum"] is None else row["momentum"]
    )

    found = importance.evaluate(hparams, metrics, SPACE, evaluator=Evaluator.MDI)

    assert rank(found)[0] == "momentum"


def test_a_categorical_one_may_decide():
    hparams, metrics = make_trials(40, lambda row: float(row["optimizer"] == "sgd"))

    found = importance.evaluate(hparams, metrics, SPACE, evaluator=Evaluator.MDI)

    assert rank(found)[0] == "optimizer"


def test_larger_may_be_better():
    hparams, metrics = make_trials(60, lambda row: -((row["dropout"] - 0.4) ** 2))

    found = importance.evaluate(
        hparams, metrics, SPACE, evaluator=Evaluator.PED_ANOVA, smaller_is_better=False
    )

    assert rank(found)[0] == "dropout"


def test_trials_without_a_finite_metric_are_left_out():
    hparams, metrics = make_trials(40, lambda row: row["dropout"])
    metrics[:4] = [None, math.nan, math.inf, -math.inf]

    found = importance.evaluate(hparams, metrics, SPACE, evaluator=Evaluator.PED_ANOVA)

    assert found.num_trials == 36
    assert rank(found)[0] == "dropout"


@pytest.mark.parametrize(
    ("count", "measure", "problem"),
    [
        (4, lambda row: row["lr"], "4 trials have a finite value; at least 5 are needed."),
        (9, lambda row: math.nan, "0 trials have a finite value"),
        (9, lambda row: 1.0, "All 9 trials have the same value."),
    ],
)
def test_where_nothing_can_be_said_it_says_why(count, measure, problem):
    hparams, metrics = make_trials(count, measure)

    found = importance.evaluate(hparams, metrics, SPACE)

    assert found.problem.startswith(problem)
    assert found.importances == ()


def test_many_trials_are_not_for_fanova():
    hparams, metrics = make_trials(600, lambda row: row["dropout"])

    assert importance.evaluate(hparams, metrics, SPACE).evaluator is Evaluator.PED_ANOVA
    found = importance.evaluate(hparams, metrics, SPACE, evaluator=Evaluator.FANOVA)
    assert found.problem.startswith("fANOVA of 600 trials takes too long")


def test_constants_decide_nothing():
    found = importance.evaluate({"batch_size": [32] * 9}, range(9), SPACE)

    assert "No hyperparameter has different values" in found.problem


def test_values_outside_of_the_space_are_measured():
    hparams = {"lr": [10.0**-number for number in range(9)], "new": list("ababababa")}

    found = importance.evaluate(hparams, list(range(9)), SPACE)

    assert set(rank(found)) == {"lr", "new"}


def test_forests_need_scikit_learn(monkeypatch):
    monkeypatch.setattr(importance.importlib.util, "find_spec", lambda name: None)
    hparams, metrics = make_trials(20, lambda row: row["dropout"])

    assert importance.evaluate(hparams, metrics, SPACE).evaluator is Evaluator.PED_ANOVA
    with pytest.raises(errors.ConfigError, match=r"'mdi', which needs scikit-learn.*ped_anova"):
        importance.evaluate(hparams, metrics, SPACE, evaluator=Evaluator.MDI)
