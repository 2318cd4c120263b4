import csv
import dataclasses
import io
import json

import pytest

ASHA = """
name: digits
entrypoint: model_def:Digits
hyperparameters:
  lr: {type: log, base: 10, minval: -4, maxval: -1}
  units: {type: int, minval: 8, maxval: 64}
searcher:
  name: adaptive_asha
  metric: accuracy
  smaller_is_better: false
  max_length: {batches: 400}
  max_trials: 16
reproducibility: {experiment_seed: 3}
"""

PBT = """
batches_per_step: 10
hyperparameters: {lr: {type: double, minval: 0.1, maxval: 1.0}}
searcher:
  name: pbt
  metric: loss
  population_size: 4
  num_rounds: 3
  steps_per_round: 2
  replace_function: {truncate_fraction: 0.5}
  explore_function: {resample_probability: 0.2, perturb_factor: 0.2}
reproducibility: {experiment_seed: 3}
"""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("QUINTAIN_HOME", str(tmp_path / "home"))


@pytest.fixture
def write(tmp_path):
    def write_config(text):
        path = tmp_path / "config.yaml"
        path.write_text(text)
        return path

    return write_config


@pytest.mark.parametrize(
    ("searcher", "num_trials", "total_batches"),
    [
        ("{name: random, max_length: 4, max_trials: 1000000}", 1_000_000, 4_000_000),
        ("{name: random, max_length: 4, max_trials: 9999, max_concurrent_trials: 3}", 9999, None),
        ("{name: adaptive_asha, max_length: 64, max_trials: 1000000}", 1_000_000, None),
        ("{name: pbt, population_size: 10000, num_rounds: 9, length_per_round: 1}", None, 90_000),
        ("{name: sync_halving, max_length: 64, budget: 10000000}", None, None),
    ],
)
def test_a_huge_search_is_extrapolated_and_says_so(
    quintain, write, searcher, num_trials, total_batches
):
    text = (
        "hyperparameters: {x: {type: double, minval: 0, maxval: 1}}\n"
        f"searcher: {searcher[:-1]}, metric: loss}}\n"
    )
    code, stdout, _ = quintain("experiment", "preview", write(text), "--json")

    found = json.loads(stdout)
    assert code == 0
    assert found["is_extrapolated"]
    assert len(found["trials"]) <= 20_000
    assert num_trials in (None, found["num_trials"])
    assert total_batches in (None, found["total_batches"])
    code, stdout, _ = quintain("experiment", "preview", write(text))
    assert "extrapolated from" in stdout


def test_rungs_and_total_are_those_of_the_search(quintain, write):
    code, stdout, stderr = quintain("experiment", "preview", write(ASHA), "--json")

    assert (code, stderr) == (0, "")
    found = json.loads(stdout)
    # Brackets with rungs at 25, 100, 400 (8 + ... trials) and at 100, 400: see the search's tests.
    assert [rung["batches"] for rung in found["rungs"]] == [25, 100, 400]
    assert sum(rung["stop"] for rung in found["rungs"]) == len(found["trials"]) == 16
    assert found["rungs"][0]["reach"] == 16
    total = sum(rung["batches"] * rung["stop"] for rung in found["rungs"])
    assert found["total_batches"] == total
    assert found["expected_secs"] is None


def test_the_time_is_that_of_all_batches_on_all_slots(quintain, write):
    path = write(ASHA)
    _, stdout, _ = quintain(
        "experiment", "preview", path, "--seconds-per-batch", 0.5, "--slots", 2, "--json"
    )
    found = json.loads(stdout)
    assert found["expected_secs"] == found["total_batches"] * 0.5 / 2

    # Many slots don't make the longest trial any shorter.
    _, stdout, _ = quintain(
        "experiment", "preview", path, "--seconds-per-batch", 0.5, "--slots", 99, "--json"
    )
    assert json.loads(stdout)["expected_secs"] == 400 * 0.5


def test_the_time_is_measured_in_the_newest_experiment_with_the_entrypoint(
    quintain, write, calls_fake, monkeypatch
):
    monkeypatch.setattr("quintain.client.home.home_database.exists", lambda path: True)

    _, stdout, _ = quintain("experiment", "preview", write(ASHA), "--slots", 1)
    assert "1 slot (0.02 s a batch, measured in experiment 1, without validations)" in stdout

    _, stdout, _ = quintain("experiment", "preview", write(PBT), "--slots", 1)
    assert "expected time" not in stdout

    monkeypatch.setattr(calls_fake, "list_metrics", lambda *_, **__: [])
    for number, trial in calls_fake.trials.items():
        calls_fake.trials[number] = dataclasses.replace(trial, held_secs=0.5 * trial.total_batches)
    _, stdout, _ = quintain("experiment", "preview", write(ASHA), "--slots", 1)
    assert "(0.5 s a batch, measured in experiment 1, with starts and validations)" in stdout


def test_steps_are_counted_in_batches_and_clones_name_their_origin(quintain, write):
    _, stdout, _ = quintain("experiment", "preview", write(PBT), "--json")

    found = json.loads(stdout)
    trials = {trial["number"]: trial for trial in found["trials"]}
    clones = [trial for trial in trials.values() if trial["parent"] is not None]
    assert len(trials) == 4 + 2 * 2
    assert len(clones) == 4
    assert all(trial["parent"] in trials for trial in clones)
    assert {trial["batches"] for trial in trials.values()} == {20, 40, 60}


def test_the_table_is_short_and_csv_is_complete(quintain, write):
    path = write(ASHA)
    _, stdout, _ = quintain("experiment", "preview", path, "--set", "searcher.max_trials=40")
    assert "adaptive_asha by accuracy" in stdout
    assert "... and 20 more (--all lists them)" in stdout

    _, stdout, _ = quintain(
        "experiment", "preview", path, "--set", "searcher.max_trials=40", "--csv"
    )
    rows = list(csv.DictReader(io.StringIO(stdout)))
    assert len(rows) == 40
    assert set(json.loads(rows[0]["hparams"])) == {"lr", "units"}


def test_all_mistakes_are_shown_at_once_with_file_and_line(quintain, write):
    path = write(ASHA.replace("max_trials", "max_trails").replace("maxval: -1", "maxval: -9"))

    code, stdout, stderr = quintain("experiment", "preview", path)

    assert (code, stdout) == (2, "")
    assert f"{path}:12: searcher.max_trails: unknown" in stderr
    assert "Did you mean 'max_trials'?" in stderr
    assert f"{path}:5: hyperparameters.lr.maxval: got -9" in stderr


def test_what_an_override_has_wrong_is_not_blamed_on_the_file(quintain, write):
    path = write(ASHA)

    code, _, stderr = quintain("experiment", "preview", path, "--set", "searcher.max_trails=40")

    assert code == 2
    assert "--set: searcher.max_trails: unknown" in stderr
    assert str(path) not in stderr


def test_a_config_may_be_laid_over_a_template(quintain, write, tmp_path):
    templates = tmp_path / "home" / "templates"
    templates.mkdir(parents=True)
    (templates / "team.yaml").write_text(ASHA)
    path = write("searcher: {max_trials: 4}\n")

    for template in ("team", templates / "team.yaml"):
        code, stdout, _ = quintain("experiment", "preview", path, "--template", template, "--json")
        assert (code, json.loads(stdout)["num_trials"]) == (0, 4)
    code, _, stderr = quintain("experiment", "preview", path, "--template", "taem")
    assert code == 2
    assert "There are: team. Did you mean 'team'?" in stderr


def test_a_grid_that_is_too_large_is_refused(quintain, write):
    path = write(
        "searcher: {name: grid, metric: a, max_steps: 1}\n"
        "hyperparameters:\n"
        "  a: {type: int, minval: 1, maxval: 100, count: 100}\n"
        "  b: {type: int, minval: 1, maxval: 100, count: 100}\n"
    )

    code, _, stderr = quintain("experiment", "preview", path)

    assert code == 2
    assert f"{path}:2" in stderr
    assert "2000" in stderr.replace(",", "")


def test_further_seeds_are_part_of_the_plan(quintain, write):
    path = write(ASHA)
    random = ("--set", "searcher.name=random", "--set", "searcher.max_trials=20")

    _, stdout, _ = quintain("experiment", "preview", path, *random, "--json")
    found = json.loads(stdout)
    _, text, _ = quintain("experiment", "preview", path, *random)
    _, off, _ = quintain(
        "experiment", "preview", path, *random, "--set", "searcher.replicate=none", "--json"
    )

    again = [trial for trial in found["trials"] if trial["replicate_of"]]
    assert found["num_trials"] <= 20
    assert {trial["number"] for trial in found["trials"][:14]}.issuperset(
        trial["replicate_of"] for trial in again
    )
    assert all(trial["replicate_of"] is None for trial in found["trials"][:14])
    assert len(again) >= 3
    assert "up to 6 trainings repeat the 3 best trials with 2 further seeds" in text
    assert (json.loads(off)["replicated"], json.loads(off)["num_trials"]) == ("", 20)


def test_a_preview_says_what_auto_would_choose(quintain, write):
    path = write(ASHA)
    auto = ("--set", "searcher.name=auto", "--set", "searcher.max_trials=20")

    _, stdout, _ = quintain("experiment", "preview", path, *auto, "--json")
    _, text, _ = quintain("experiment", "preview", path, *auto)

    chosen = json.loads(stdout)["chosen"]
    assert chosen.startswith("auto chose gp: 20 full trials")
    assert chosen in text
