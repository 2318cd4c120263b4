import csv

import pytest

from quintain import errors
from quintain.records.views import trial_names, trial_table


def make_table():
    columns = {name: [None] * 4 for name in trial_table.COLUMNS}
    columns |= {
        "id": [4, 5, 6, 7],
        "state": ["ACTIVE", "COMPLETED", "ERROR", "COMPLETED"],
        "start_time": [1.0, 1.0, None, 5.0],
        "end_time": [11.0, 4.0, None, 10.0],
        "held_secs": [10.0, 3.0, 0.0, 5.0],
    }
    hparams = trial_table.to_hparam_columns(
        ['{"lr":0.1,"a":{"b":"x"}}', '{"lr":0.2,"a":{"b":"y"}}', '{"lr":0.3}', '{"lr":0.2}']
    )
    accuracy = trial_table.MetricColumns(
        "max", [0.5, "NaN", None, 0.7], [0.1, "NaN", None, 0.2], [0.6, "NaN", None, "Infinity"]
    )
    return trial_table.TrialTable("c-1", 4, columns, hparams, {"validation/accuracy": accuracy})


def choose(where="", sort=""):
    table = make_table()
    return [table.columns["id"][row] for row in table.select(where, sort)]


@pytest.mark.parametrize(
    ("where", "sort", "ids"),
    [
        ("", "", [4, 5, 6, 7]),
        ("accuracy > 0.5", "", [4, 7]),
        ("accuracy == inf", "", [7]),
        ("a.b in (x, y) and duration < 5", "", [5]),
        ("", "-id", [7, 6, 5, 4]),
        # What is not a number comes after numbers, and what is missing last, either way.
        ("", "accuracy", [4, 7, 5, 6]),
        ("", "-accuracy", [7, 4, 5, 6]),
        ("", "lr,-id", [4, 7, 5, 6]),
        ("", "state, -duration", [4, 7, 5, 6]),
        ("id > 4", "a.b", [5, 6, 7]),
    ],
)
def test_rows_are_chosen_and_ordered(where, sort, ids):
    assert choose(where, sort) == ids


@pytest.mark.parametrize(
    ("where", "sort", "message"),
    [
        ("acuracy > 1", "", r"where: at position 1: got 'acuracy'.*Did you mean 'accuracy'"),
        ("", "-acuracy", r"sort: got 'acuracy'.*Did you mean 'accuracy'"),
        ("", "zzzzzz", r"sort: got 'zzzzzz'.*There are: a\.b, accuracy"),
    ],
)
def test_names_that_are_not_there_name_the_nearest(where, sort, message):
    with pytest.raises(errors.ConfigError, match=message):
        choose(where, sort)


def test_files_have_all_columns_but_the_smallest_and_the_largest():
    table = make_table()

    rows = list(csv.DictReader(table.write_csv([3, 0]).splitlines()))

    assert [row["id"] for row in rows] == ["7", "4"]
    assert rows[1]["hparams.a.b"] == "x"
    assert (rows[0]["validation/accuracy.best"], rows[0]["validation/accuracy.last"]) == (
        "Infinity",
        "0.7",
    )
    assert "validation/accuracy.min" not in rows[0]


def test_many_trials_may_have_different_hyperparameters():
    texts = ['{"a": 1}'] * 1500 + ['{"b": {"c": [1, 2], "d": null}}'] * 2

    columns = trial_table.to_hparam_columns(texts)

    assert {name: len(column) for name, column in columns.items()} == dict.fromkeys(
        ("a", "b.c", "b.d"), 1502
    )
    assert columns["a"][1499:1501] == [1, None]
    assert columns["b.c"][1499:] == [None, [1, 2], [1, 2]]


@pytest.mark.parametrize(
    ("name", "searcher", "best_is"),
    [
        ("validation/accuracy", {}, ""),
        ("training/loss", {}, "min"),
        ("validation/masked_loss", {}, ""),
        ("training/learning_rate", {}, ""),
        ("validation/mae", {"directions": {"mae": "min"}}, "min"),
        ("validation/val_mae", {"directions": {"mae": "min"}}, "min"),
        ("validation/val_loss", {}, "min"),
        ("validation/f1", {"further_objectives": [{"metric": "f1"}]}, "min"),
        ("validation/loss", {"metric": "loss", "smaller_is_better": False}, "max"),
        ("validation/f1", {"metric": "f1"}, "min"),
    ],
)
def test_the_config_says_which_value_is_the_best_and_no_name_but_the_loss_does(
    name, searcher, best_is
):
    assert trial_table.find_best_statistic(name, searcher) == best_is


def test_a_column_comes_before_a_hyperparameter_of_the_same_name():
    known = ["state", "hparams.state", "hparams.accuracy", "validation/accuracy.best"]

    assert trial_names.find("state", known) == "state"
    assert trial_names.find("hparams.state", known) == "hparams.state"
    assert trial_names.find("accuracy", known) == "hparams.accuracy"
    assert trial_names.find("validation/accuracy", known) == "validation/accuracy.best"


def test_an_end_of_a_hyperparameter_names_it_if_no_other_one_has_it():
    known = ["hparams.task.rate", "hparams.trainer.rate", "hparams.a.loss", "validation/loss.best"]

    assert trial_names.find("task.rate", known) == "hparams.task.rate"
    assert trial_names.find("rate", known) is None
    assert trial_names.find("loss", known) == "validation/loss.best"
