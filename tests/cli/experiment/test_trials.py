import csv
import json

import pytest


def list_ids(quintain, *arguments):
    code, stdout, stderr = quintain("trial", "list", 1, "--json", *arguments)
    assert (code, stderr) == (0, "")
    return [one["id"] for one in json.loads(stdout)]


def test_trials_are_chosen_and_ordered(quintain, calls_fake):
    assert list_ids(quintain, "--where", "accuracy > 0.4", "--sort", "-accuracy") == [2, 1]
    assert list_ids(quintain, "--where", "net.units >= 16 and state = error") == [3]
    assert list_ids(quintain, "--sort", "-id", "--offset", 1, "--limit", 1) == [2]


def test_columns_are_chosen_by_the_names_of_hyperparameters_and_metrics(quintain, calls_fake):
    _, stdout, _ = quintain(
        "trial", "list", 1, "--columns", "id,lr,accuracy", "--where", "accuracy > 0"
    )
    assert [line.split() for line in stdout.splitlines()] == [
        ["ID", "LR", "ACCURACY"],
        ["1", "0.1", "0.5"],
        ["2", "0.05", "0.75"],
    ]

    _, stdout, _ = quintain("trial", "list", 1, "--columns", "all", "--csv")
    row = next(csv.DictReader(stdout.splitlines()))
    assert (row["hparams.net.units"], row["validation/accuracy.best"]) == ("8", "0.5")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--where", "acuracy > 1"), "where: at position 1: got 'acuracy'"),
        (("--where", "accuracy >"), "where: at position 11: got the end"),
        (("--sort", "-acuracy"), "sort: got 'acuracy'"),
        (("--columns", "id,acuracy"), "--columns: got 'acuracy'"),
    ],
)
def test_a_mistake_is_one_clear_message(quintain, calls_fake, arguments, message):
    code, stdout, stderr = quintain("trial", "list", 1, *arguments)

    assert (code, stdout) == (2, "")
    assert message in stderr
    assert "Traceback" not in stderr


def test_states_and_an_expression_choose_together(quintain, calls_fake):
    assert list_ids(quintain, "--state", "error", "--where", "id > 0 or id = 0") == [3]


def test_an_expression_needs_an_experiment(quintain, calls_fake):
    code, _, stderr = quintain("trial", "list", "--sort", "-id")

    assert code == 2
    assert "Give its number, too." in stderr


def test_the_former_name_of_the_list_works_and_is_not_shown(quintain, calls_fake):
    new, old = quintain("trial", "list", 1), quintain("experiment", "list-trials", 1)

    assert new == old
    assert "list-trials" not in quintain("experiment", "--help")[1]


def test_that_there_are_no_such_trials_is_told(quintain, calls_fake):
    _, _, stderr = quintain("trial", "list", 1, "--where", "accuracy > 5")

    assert "Experiment 1 has no such trials." in stderr


def test_importance_is_a_table_json_or_csv(quintain, calls_fake):
    _, stdout, _ = quintain("experiment", "importance", 1, "--evaluator", "ped_anova")
    assert [line.split() for line in stdout.splitlines()] == [
        ["HYPERPARAMETER", "IMPORTANCE"],
        ["lr", "75.0", "%"],
        ["net.units", "25.0", "%"],
        [],
        ["By", "ped_anova,", "of", "9", "trials."],
    ]

    _, stdout, _ = quintain("experiment", "importance", 1, "--json")
    assert json.loads(stdout)["importances"] == [["lr", 0.75], ["net.units", 0.25]]
    _, stdout, _ = quintain("experiment", "importance", 1, "--csv")
    assert stdout.splitlines()[1] == "lr,0.75"


def test_where_nothing_can_be_said_it_fails_and_says_why(quintain, calls_fake):
    code, stdout, stderr = quintain("experiment", "importance", 1, "--metric", "new")

    assert (code, stdout) == (2, "")
    assert "Experiment 1: 2 trials have a finite value." in stderr
