import csv
import dataclasses
import io
import json

import pytest

UUID = "0b1c2d3e-0000-0000-0000-000000000001"


def read_csv(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_list_shows_experiments_but_not_archived_ones(quintain, calls_fake):
    code, stdout, _ = quintain("experiment", "list")

    assert code == 0
    header, first, second = stdout.splitlines()
    assert header.split() == ["ID", "NAME", "STATE", "PROGRESS", "STARTED", "ENDED", "SEARCHER",
                              "LABELS"]  # fmt: skip
    assert first.split()[:4] == ["1", "digits", "COMPLETED", "100"]
    assert second.split()[:3] == ["2", "two", "ACTIVE"]


def test_list_takes_filters(quintain, calls_fake):
    def numbers(*arguments):
        _, stdout, _ = quintain("experiment", "list", "--json", *arguments)
        return [one["id"] for one in json.loads(stdout)]

    assert numbers() == [1, 2]
    assert numbers("--all") == [1, 2, 3]
    assert numbers("--label", "a") == [1]
    assert numbers("--project", "default", "--project", "speech") == [1, 2]
    assert numbers("--project", "speech") == []
    assert numbers("--state", "active") == [2]


@pytest.mark.parametrize(
    "command",
    [
        ("experiment", "list"),
        ("experiment", "describe", 1, 2),
        ("trial", "list", 1),
        ("checkpoint", "list", 1),
        ("experiment", "best", 1, "--top", 2),
        ("trial", "list"),
        ("trial", "describe", 1),
        ("trial", "logs", 1),
        ("trial", "metrics", 1),
        ("checkpoint", "list"),
    ],
)
def test_every_list_comes_as_json_and_as_csv(quintain, calls_fake, command):
    code, as_json, stderr = quintain(*command, "--json")
    assert (code, stderr) == (0, "")
    assert json.loads(as_json)

    code, as_csv, stderr = quintain(*command, "--csv")
    assert (code, stderr) == (0, "")
    rows = read_csv(as_csv)
    assert rows
    assert all(None not in row.values() for row in rows)

    code, _, stderr = quintain(*command, "--csv", "--json")
    assert code == 2
    assert "expected one of them" in stderr


def test_describe_shows_an_experiment_with_its_trials(quintain, calls_fake):
    code, stdout, _ = quintain("experiment", "describe", 1)

    assert code == 0
    assert "best             accuracy 0.75 (trial 2)" in stdout
    assert "trials           2 completed, 1 error" in stdout
    assert "ValueError: no luck" in stdout


def test_best_is_the_best_trial_with_the_checkpoint_of_its_best_validation(quintain, calls_fake):
    _, stdout, stderr = quintain("experiment", "best", 1)
    assert stderr == f"\nTo use its model: quintain checkpoint export {UUID} --output=best\n"
    assert stdout.splitlines() == [
        "trial            2",
        "accuracy         0.75",
        "after            150 batches",
        "hyperparameters  lr: 0.05",
        "                 units: 16",
        f"checkpoint       {UUID}",
    ]

    _, stdout, _ = quintain("experiment", "best", 1, "-n", 3, "--json")
    assert [row["trial"] for row in json.loads(stdout)] == [2, 1]


def test_best_names_the_command_that_shows_shared_trials_too(quintain, calls_fake):
    record = calls_fake.experiments[1]
    searcher = {**record.config["searcher"], "inherited": [7, 9]}
    config = {**record.config, "searcher": searcher}
    calls_fake.experiments[1] = dataclasses.replace(record, parent_id=5, config=config)

    _, _, stderr = quintain("experiment", "best", 1)

    assert "2 earlier trials do not count here. To see" in stderr
    assert stderr.endswith("quintain experiment compare 5 1\n")


def test_best_is_what_further_seeds_chose_with_its_interval_and_lead(quintain, calls_fake):
    for number, (name, metric) in enumerate(
        [("b", 0.95), ("a+1", 0.7), ("b+1", 0.6), ("a+2", 0.74), ("b+2", 0.66)], start=4
    ):
        calls_fake.trials[number] = dataclasses.replace(
            calls_fake.trials[2],
            id=number,
            request_id=name,
            best_metric=metric,
            seed=int(name.endswith("2")),
        )
    calls_fake.trials[2] = dataclasses.replace(calls_fake.trials[2], request_id="a", seed=7)

    _, stdout, _ = quintain("experiment", "best", 1)
    _, as_json, _ = quintain("experiment", "best", 1, "--top=2", "--json")
    _, table, _ = quintain("experiment", "best", 1, "--top=2")

    assert stdout.splitlines()[:4] == [
        "trial            2",
        "accuracy         0.75",
        "mean of 2 seeds  0.72 (95 %: 0.4659 to 0.9741)",
        "than trial 4     0.09 better by 2 paired seeds (95 %: -0.03707 to 0.2171), a tie; about 1 "
        "more seed of each would decide it",
    ]
    first, second = json.loads(as_json)
    assert (first["trial_ids"], first["lead"]["is_tie"]) == ([2, 7, 5], True)
    assert (second["trial"], second["metric"]) == (4, 0.95)
    assert table.split()[:5] == ["TRIAL", "METRIC", "MEAN", "LOW", "HIGH"]


def test_best_writes_the_metric_in_the_format_of_its_label(quintain, calls_fake):
    config = calls_fake.experiments[1].config
    searcher = config["searcher"] | {"formats": {"accuracy": ".1%"}}
    calls_fake.experiments[1] = dataclasses.replace(
        calls_fake.experiments[1], config=config | {"searcher": searcher}
    )
    assert "accuracy         75.0%\n" in quintain("experiment", "best", 1)[1]
    assert "75.0%" in quintain("experiment", "best", 1, "-n", 2)[1]
    assert "0.75" in quintain("experiment", "best", 1, "--csv")[1]


def test_best_of_an_experiment_without_validations_is_no_traceback(quintain, calls_fake):
    calls_fake.trials.clear()

    code, _, stderr = quintain("experiment", "best", 1)

    assert code == 2
    assert "no trial was validated yet" in stderr


def test_best_checkpoints_come_first(quintain, calls_fake):
    _, stdout, _ = quintain("checkpoint", "list", 1, "--best", 1, "--json")
    assert [one["uuid"] for one in json.loads(stdout)] == [UUID]

    code, _, stderr = quintain("checkpoint", "list", "--best", 1)
    assert code == 2
    assert "`--best` requires EXPERIMENT." in stderr


def test_the_config_is_yaml_and_the_original_text(quintain, calls_fake):
    _, stdout, _ = quintain("experiment", "config", 1)
    assert "name: digits" in stdout
    assert "metric: accuracy" in stdout

    _, stdout, _ = quintain("experiment", "config", 1, "--original")
    assert stdout == "name: digits\n"


def test_the_code_is_copied(quintain, calls_fake, tmp_path):
    code, stdout, _ = quintain("experiment", "download-model-def", 1, "-o", tmp_path / "code")

    assert code == 0
    assert "Copied 3 files" in stdout
    assert (tmp_path / "code" / "weights.h5").read_text() == "w" * 2048


def test_what_is_not_there_is_an_error_with_exit_code_1(quintain, calls_fake):
    code, _, stderr = quintain("experiment", "describe", 99)

    assert code == 1
    assert "experiment 99: there is none" in stderr


def test_a_narrow_terminal_cuts_hyperparameters_only(quintain, calls_fake, monkeypatch):
    monkeypatch.setenv("COLUMNS", "76")

    _, stdout, _ = quintain("trial", "list", 1)

    assert max(map(len, stdout.splitlines())) <= 76
    assert "COMPLETED" in stdout
    assert "EXPERIMENT" not in stdout
    assert "…" in stdout


def test_provenance_is_shown_and_comes_as_json(quintain, calls_fake):
    code, stdout, _ = quintain("experiment", "describe", 1, "--provenance")
    assert code == 0
    assert "command        quintain experiment create 'a b.yaml'\n" in stdout
    assert "keras 3.15" in stdout
    assert stdout.endswith("\n+red\n\n")

    _, stdout, _ = quintain("experiment", "describe", 1, "--provenance", "--json")
    assert json.loads(stdout)["1"]["git"]["commit"] == "0123abcd"
    code, _, stderr = quintain("experiment", "describe", 2, "--provenance")
    assert (code, "it is not known" in stderr) == (1, True)
    assert quintain("experiment", "describe", 1, "--provenance", "--csv")[0] == 2


@pytest.mark.parametrize("home", ["mounted/below/home", "mounted"])
def test_those_who_read_make_nothing_where_a_disk_is_not_mounted(
    quintain, tmp_path, monkeypatch, home
):
    (tmp_path / "mounted").mkdir(mode=0o750)
    monkeypatch.setenv("QUINTAIN_HOME", str(tmp_path / home))

    code, _, stderr = quintain("experiment", "list")

    assert code == 0
    assert ("which is not there. Is its disk mounted?" in stderr) == (home != "mounted")
    assert "There are no experiments." in stderr
    assert list((tmp_path / "mounted").iterdir()) == []
    assert (tmp_path / "mounted").stat().st_mode & 0o040


def test_lists_show_whence_experiments_come_and_their_tree(quintain, calls_fake):
    known = calls_fake.experiments
    known[4] = dataclasses.replace(known[2], id=4, parent_id=1, description="")
    known[5] = dataclasses.replace(known[2], id=5, parent_id=4, description="")

    _, listed, _ = quintain("experiment", "list")
    _, tree, _ = quintain("experiment", "list", "--tree")
    _, described, _ = quintain("experiment", "describe", 1)

    assert "FROM" in listed.splitlines()[0].split()
    rows = [line for line in tree.splitlines() if line.split()[0].isdigit()]
    assert [line.split()[0] for line in rows] == ["1", "4", "5", "2"]
    places = [line.index("two") for line in rows[1:3]]
    assert places[1] == places[0] + 2
    assert "children" in described
