import dataclasses
import json

import pytest


@pytest.fixture
def with_seeds(calls_fake):
    """Two settings of experiment 1 and one of experiment 2, with two further seeds each."""
    first = calls_fake.trials[2]
    rows = [
        (11, 1, "a", 0.7, 5), (12, 1, "a+1", 0.7, 1), (13, 1, "a+2", 0.74, 2),
        (14, 1, "b", 0.7, 6), (15, 1, "b+1", 0.6, 1), (16, 1, "b+2", 0.66, 2),
        (21, 2, "c", 0.7, 7), (22, 2, "c+1", 0.9, 1), (23, 2, "c+2", 0.94, 2),
    ]  # fmt: skip
    calls_fake.trials = {
        number: dataclasses.replace(
            first, id=number, experiment_id=owner, request_id=name, best_metric=metric, seed=seed
        )
        for number, owner, name, metric, seed in rows
    }
    return calls_fake


def test_two_experiments_are_compared_by_common_seeds_of_their_best(quintain, with_seeds):
    _, stdout, _ = quintain("experiment", "compare", 1, 2)
    _, as_json, _ = quintain("experiment", "compare", 2, 1, "--json")

    assert stdout.splitlines() == [
        "experiment 1  accuracy mean of 2 seeds 0.72 (95 %: 0.4659 to 0.9741) (trial 13, 11, 12)",
        "experiment 2  accuracy mean of 2 seeds 0.92 (95 %: 0.6659 to 1.174) (trial 23, 22, 21)",
        "1 is          0.2 worse by 2 paired seeds (95 %: 0.2 to 0.2)",
    ]
    lead = json.loads(as_json)[0]["lead"]
    assert (lead["is_tie"], lead["is_paired"], lead["trial_id"]) == (False, True, 13)


def test_trials_are_compared_with_all_seeds_of_their_settings(quintain, with_seeds):
    _, stdout, _ = quintain("experiment", "compare", "--trials", 11, 16)

    assert "11 is     0.09 better by 2 paired seeds (95 %: -0.037" in stdout


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (("--trials", 11, 12), "11 and 12 differ in nothing but seeds."),
        ((1, 3), "Experiment 3: no trial was validated yet."),
    ],
)
def test_what_can_not_be_compared_is_said(quintain, with_seeds, numbers, message):
    code, _, stderr = quintain("experiment", "compare", *numbers)

    assert code == 2
    assert message in stderr


def test_experiments_of_different_metrics_are_not_compared(quintain, with_seeds):
    other = with_seeds.experiments[2]
    searcher = {**other.config["searcher"], "metric": "loss"}
    config = {**other.config, "searcher": searcher}
    with_seeds.experiments[2] = dataclasses.replace(other, config=config)

    code, _, stderr = quintain("experiment", "compare", 1, 2)

    assert code == 2
    assert "searcher.metric is 'accuracy' and 'loss'. Compare those of one metric." in stderr


@pytest.fixture
def make_run(tmp_path):
    """Returns a function that makes the directory of a run, as training leaves it."""

    def make(name, width, seed, accuracy, step=40):
        path = tmp_path / "läufe [1]" / name
        path.mkdir(parents=True)
        (path / "params.yaml").write_text(
            f"experiment: image/local\ntask: {{model: {{width: {width}}}}}\n"
            "trainer: {best_checkpoint_eval_metric: accuracy}\n"
            f"runtime: {{seed: {seed}}}\n"
        )
        line = json.dumps({"step": step, "metrics": {"accuracy": accuracy, "loss": 1 - accuracy}})
        (path / "evaluations.jsonl").write_text(f"{line}\n")
        return path

    return make


def test_runs_are_compared_with_those_that_differ_in_seeds_only(quintain, make_run):
    narrow = [make_run(f"narrow-{seed}", 8, seed, 0.8 + seed / 100) for seed in (1, 2, 3)]
    wide = [make_run(f"wide-{seed}", 64, seed, 0.9 + seed / 100) for seed in (1, 2, 3)]
    make_run("wide-unfinished", 64, 4, 0.1, step=20)

    _, stdout, _ = quintain("experiment", "compare", wide[0], narrow[2])
    _, as_json, _ = quintain(
        "experiment", "compare", narrow[0], wide[0], "--metric=loss:min", "--json"
    )

    assert stdout.splitlines() == [
        f"{wide[0]}    accuracy 0.92 (95 %: 0.8952 to 0.9448) of 3 seeds",
        f"{narrow[2]}  accuracy 0.82 (95 %: 0.7952 to 0.8448) of 3 seeds",
        f"{'the first is':{len(str(narrow[2]))}}  0.1 better by 3 paired seeds (95 %: 0.1 to 0.1)",
    ]
    first, second = json.loads(as_json)
    assert first["lead"]["mean"] == pytest.approx(-0.1)
    assert second["seeds"] == pytest.approx({"1": 0.09, "2": 0.08, "3": 0.07})


def test_runs_that_can_not_be_compared_are_said(quintain, make_run, tmp_path):
    one, other, wide = make_run("a", 8, 1, 0.5), make_run("b", 8, 2, 0.5), make_run("c", 9, 1, 0.5)

    def find_error(*arguments):
        code, _, stderr = quintain("experiment", "compare", *arguments)
        assert code == 2
        return stderr

    assert "differ in nothing but seeds" in find_error(one, other)
    assert "has no metric 'bleu'; it has accuracy, loss." in find_error(
        one, wide, "--metric=bleu:max"
    )
    assert "--metric: got 'bleu', expected NAME:min or NAME:max." in find_error(
        one, wide, "--metric=bleu"
    )
    assert (
        "expected the number of an experiment, or a directory that has params.yaml"
        in find_error(one, tmp_path)
    )
    assert "expected two numbers, or two directories of runs" in find_error(1, one)
    assert "--metric: experiments and trials" in find_error(1, 2, "--metric=accuracy:max")
