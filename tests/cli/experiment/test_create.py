import json
import os
import sys
import types
from unittest import mock

import pytest

from quintain import errors
from quintain.cli.experiment import create, model_check
from quintain.master.processes import process_launcher
from quintain.records.config import experiment_spec

CONFIG = """
name: digits
entrypoint: model_def:Digits
hyperparameters: {lr: {type: double, minval: 0.1, maxval: 1.0}}
searcher: {name: random, metric: accuracy, max_length: 10, max_trials: 3}
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "random.yaml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def model_dir(tmp_path):
    path = tmp_path / "model"
    path.mkdir()
    return path


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    """Returns what was checked; nothing is wrong with it."""
    checked = []
    monkeypatch.setattr(model_check, "ModelCheck", fake_check(checked.append))
    launcher = mock.create_autospec(process_launcher.ProcessLauncher)
    monkeypatch.setattr(process_launcher, "ProcessLauncher", launcher)
    return checked


def fake_check(judge):
    """Returns what stands for `ModelCheck`; `judge` is given what is checked."""

    class FakeCheck:
        def __init__(self, *arguments):
            self.arguments = arguments

        def finish(self):
            judge(self.arguments)
            return []

        def cancel(self):
            pass

    return FakeCheck


def test_a_detached_experiment_is_handed_over(quintain, calls_fake, config, model_dir, checked):
    code, stdout, _ = quintain(
        "experiment", "create", config, model_dir, "--detach", "--set", "searcher.max_trials=5"
    )

    assert (code, stdout) == (0, "Created experiment 4.\n")
    ((_, text, directory, options),) = calls_fake.done
    assert (text, directory) == (CONFIG, model_dir)
    assert options.pop("origin").command
    assert options == {
        "source": str(config),
        "overrides": ["searcher.max_trials=5"],
        "activate": True,
    }
    ((file, *_),) = checked
    assert file.config.searcher.max_trials == 5


def test_fields_about_containers_are_taken_with_a_notice(quintain, calls_fake, config, model_dir):
    config.write_text(CONFIG + "bind_mounts: []\nenvironment: {image: tf, ports: {}}\n")
    code, _, stderr = quintain("experiment", "create", config, model_dir, "--detach")
    assert code == 0
    assert "no containers: bind_mounts, environment.image, environment.ports." in stderr


def test_a_paused_experiment_is_not_started(quintain, calls_fake, config, model_dir):
    code, stdout, _ = quintain("experiment", "create", config, model_dir, "--paused", "--json")

    assert code == 0
    assert json.loads(stdout)["id"] == 4
    assert calls_fake.done[0][3]["activate"] is False


def test_mistakes_in_the_config_come_before_anything_starts(
    quintain, calls_fake, config, model_dir, checked
):
    config.write_text(CONFIG.replace("max_trials: 3", "max_trials: x").replace("0.1", "3"))

    code, stdout, stderr = quintain("experiment", "create", config, model_dir, "--detach")

    assert (code, stdout) == (2, "")
    assert f"{config}:5: searcher.max_trials: got 'x'" in stderr
    assert f"{config}:4: hyperparameters.lr.maxval" in stderr
    assert calls_fake.done == checked == []


def test_mistakes_in_the_code_come_before_anything_starts(
    quintain, calls_fake, config, model_dir, monkeypatch
):
    def fail(*_):
        raise errors.ConfigError("config.yaml:3: entrypoint: no module named 'model_def'.")

    monkeypatch.setattr(model_check, "ModelCheck", fake_check(fail))

    code, _, stderr = quintain("experiment", "create", config, model_dir, "--detach")
    assert code == 2
    assert "no module named 'model_def'" in stderr
    assert calls_fake.done == []

    code, _, _ = quintain("experiment", "create", config, model_dir, "--detach", "--no-check")
    assert code == 0


def test_code_has_to_be_given_where_it_is_needed(quintain, calls_fake, config, tmp_path):
    code, _, stderr = quintain("experiment", "create", config, "--detach")
    assert code == 2
    assert "MODEL_DIR: missing" in stderr

    code, _, stderr = quintain("experiment", "create", config, tmp_path / "nowhere", "--detach")
    assert code == 2
    assert "expected the directory with the code of 'model_def:Digits'" in stderr
    assert f"There is nothing at {tmp_path / 'nowhere'}." in stderr

    config.write_text(CONFIG.replace("model_def:Digits", "experiment:translation/local"))
    code, _, stderr = quintain("experiment", "create", config, "--detach")
    assert code == 0
    assert stderr == "  quintain experiment describe 4\nTo see it in a browser:\n  quintain ui\n"


def test_test_runs_are_local(quintain, calls_fake, config, model_dir):
    code, _, stderr = quintain("experiment", "create", config, model_dir, "--test")

    assert code == 2
    assert "--local" in stderr


def test_a_missing_config_is_named(quintain, calls_fake, tmp_path):
    code, _, stderr = quintain("experiment", "create", tmp_path / "no.yaml", tmp_path)

    assert code == 2
    assert "no.yaml" in stderr


def test_what_trials_will_not_have_is_told_before_the_start(tmp_path, capsys):
    (tmp_path / ".gitignore").write_text("*.bin\n")
    for number in range(7):
        (tmp_path / f"{number}.bin").write_text("")
    file = types.SimpleNamespace(config=experiment_spec.ExperimentSpec())

    create._check_files(file, tmp_path)

    stderr = capsys.readouterr().err
    assert "do not have what is ignored: 0.bin, 1.bin, 2.bin, 3.bin, 4.bin and 2 more." in stderr


def test_a_trial_here_begins_in_a_process_that_starts_with_its_variables(
    quintain, config, model_dir, monkeypatch
):
    class BegunError(Exception):
        pass

    begun, run = [], []

    def begin(*arguments):
        begun.append(arguments)
        raise BegunError

    monkeypatch.setattr(create.os, "execve", begin)
    monkeypatch.setattr(create, "_run_locally", lambda *_, **__: run.append(dict(os.environ)))
    config.write_text(f"{CONFIG}environment: {{environment_variables: [TZ=Probe-5:30]}}\n")
    monkeypatch.delenv("TZ", raising=False)
    quintain("experiment", "create", config, model_dir, "--local")
    ((program, command, environment),) = begun
    assert command == [program, *sys.orig_argv[1:]]
    assert environment["TZ"] == "Probe-5:30"
    assert not run

    # As Python may change what it was begun with, it is begun once.
    monkeypatch.setenv(create._BEGUN_ANEW, environment[create._BEGUN_ANEW])
    monkeypatch.setenv("TZ", "Other")
    assert quintain("experiment", "create", config, model_dir, "--local")[0] == 0
    assert len(begun) == len(run) == 1
    assert run[0]["TZ"] == "Probe-5:30"
    assert create._BEGUN_ANEW not in run[0]


def test_a_trial_here_whose_variables_are_there_begins_at_once(
    quintain, config, model_dir, monkeypatch
):
    monkeypatch.setattr(create.os, "execve", None)
    monkeypatch.setattr(create, "_run_locally", lambda *_, **__: None)
    config.write_text(f"{CONFIG}environment: {{environment_variables: [TZ=Probe-5:30]}}\n")
    monkeypatch.setenv("TZ", "Probe-5:30")
    assert quintain("experiment", "create", config, model_dir, "--local")[0] == 0
