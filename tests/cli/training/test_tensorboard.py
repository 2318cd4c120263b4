import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import time
import urllib.request

import pytest
from tensorboard.backend.event_processing import event_file_loader
from tensorboard.plugins.hparams import metadata

from quintain import errors
from quintain.cli.training import event_files
from quintain.client.home import home as home_lib
from quintain.records.rows import experiment, metric, states, trial
from quintain.server import tensorboards
from quintain.store import store as store_lib

ACTIVE, COMPLETED = states.TrialState.ACTIVE, states.TrialState.COMPLETED
HPARAMS = {"lr": 0.1, "net": {"units": 8, "bias": True}, "name": "<b>", "top": float("inf")}


def build_trial(state=ACTIVE, **fields):
    return trial.TrialRecord(5, 1, "r5", state, HPARAMS, 3, **fields)


def build_row(batches, *, secs=1.0, group=metric.MetricGroup.VALIDATION, **metrics):
    return metric.MetricRow(5, group, batches, metrics, 10, secs)


def read(directory):
    (path,) = directory.iterdir()
    return list(event_file_loader.LegacyEventFileLoader(str(path)).Load())


def test_metrics_are_scalars_under_their_group_and_batches(tmp_path):
    rows = [build_row(10, accuracy=0.5, note="x", huge=10**400, flag=True),
            build_row(20, accuracy="NaN", group=metric.MetricGroup.TRAINING)]  # fmt: skip

    event_files.TrialEvents(tmp_path / "a").write(build_trial(), rows)

    version, _, first, second = read(tmp_path / "a")
    assert version.file_version == "brain.Event:2"
    assert (first.step, first.wall_time) == (10, 1.0)
    values = {value.tag: value.simple_value for value in first.summary.value}
    assert values == {"validation/accuracy": 0.5, "validation/huge": float("inf")}
    (value,) = second.summary.value
    assert value.tag == "training/accuracy"
    assert value.simple_value != value.simple_value


def test_hyperparameters_are_a_session_of_the_hparams_plugin(tmp_path):
    ended = build_trial(states.TrialState.ERROR, start_time=3.0, end_time=9.0)

    event_files.TrialEvents(tmp_path / "a").write(ended, [])

    _, start, end = (event.summary for event in read(tmp_path / "a"))
    content = start.value[0].metadata.plugin_data.content
    info = metadata.parse_session_start_info_plugin_data(content)
    assert (info.group_name, info.start_time_secs) == ("trial 5", 3.0)
    assert info.hparams["lr"].number_value == 0.1
    assert info.hparams["net.bias"].bool_value
    assert info.hparams["name"].string_value == "<b>"
    assert info.hparams["top"].string_value == "Infinity"
    content = end.value[0].metadata.plugin_data.content
    assert metadata.parse_session_end_info_plugin_data(content).end_time_secs == 9.0


def test_only_what_is_new_is_written_again(tmp_path):
    file = event_files.TrialEvents(tmp_path / "a")
    rows = [build_row(10, accuracy=0.5)]
    file.write(build_trial(), rows)

    file.write(build_trial(), [*rows, build_row(10, accuracy=0.7, secs=8.0)])
    before = file.is_complete
    file.write(build_trial(COMPLETED), rows)

    times = [event.wall_time for event in read(tmp_path / "a")]
    assert times == [0.0, 0.0, 1.0, 8.0, 0.0]
    assert (before, file.is_complete) == (False, True)


def test_something_to_show_has_to_be_named(quintain, calls_fake):
    code, _, stderr = quintain("tensorboard")
    unknown, _, message = quintain("tensorboard", "--trial", "99")

    assert (code, unknown) == (2, 1)
    assert "--experiment ID, --trial ID or --run DIR" in stderr
    assert "trial 99" in message


@pytest.fixture
def home(tmp_path):
    """A home with an experiment of two trials."""
    home = home_lib.find_home(str(tmp_path / "home"))
    home.create()
    store = store_lib.open_store(str(home.database))
    with store.transaction() as session:
        session.add_experiment(
            experiment.Experiment(0, states.ExperimentState.COMPLETED, {"name": "a"}, "", "/m")
        )
        for number in (1, 2):
            record = build_trial(COMPLETED, start_time=1.0, end_time=2.0)
            session.add_trial(dataclasses.replace(record, id=0, request_id=f"r{number}"))
            row = dataclasses.replace(build_row(10, accuracy=0.5 * number), trial_id=number)
            session.add_metrics([row])
    store.close()
    return home


def fetch(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.loads(answer.read())


def wait_for(find):
    """Returns what a function finds, as soon as TensorBoard has read its files."""
    deadline = time.monotonic() + 60
    while not (found := find()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


@pytest.mark.slow
@pytest.mark.e2e
def test_the_page_opens_one_tensorboard_for_trials_and_runs(home, tmp_path):
    run = tmp_path / "my run"
    file = event_files.TrialEvents(run / "train")
    file.write(build_trial(), [build_row(7, loss=0.25)])

    with contextlib.closing(tensorboards.TensorBoards(home)) as boards:
        url = boards.open(experiment_id=1, trial_ids=[], run_dirs=[run])
        again = boards.open(experiment_id=1, trial_ids=[], run_dirs=[run])
        tags = wait_for(
            lambda: len(found := fetch(f"{url}data/plugin/scalars/tags")) == 3 and found
        )
        query = "run=experiment-1/trial-2&tag=validation/accuracy"
        points = fetch(f"{url}data/plugin/scalars/scalars?{query}")
        with pytest.raises(OSError, match="404"):
            fetch(f"{url.split('/', 3)[0]}//{url.split('/')[2]}/data/plugin/scalars/tags")
        process = next(iter(boards._boards.values())).process

    assert url == again
    assert set(tags) == {"experiment-1/trial-1", "experiment-1/trial-2", "my run/train"}
    assert points == [[1.0, 10, 1.0]]
    assert process.returncode is not None


@pytest.mark.long("A TensorBoard is opened in every run")
@pytest.mark.slow
@pytest.mark.e2e
def test_a_tensorboard_ends_with_what_has_started_it(home):
    """As where the master is killed: the pipe is closed by the system."""
    process = subprocess.Popen(
        [sys.executable, "-m", "quintain.cli.main", "tensorboard", "--json", "--trial=1",
         "--until-stdin-closes"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "QUINTAIN_HOME": str(home.path)},
    )  # fmt: skip
    assert json.loads(process.stdout.readline())["url"].startswith("http://127.0.0.1:")

    process.stdin.close()

    assert process.wait(timeout=60) == 0
    process.stdout.close()


@pytest.mark.long("A TensorBoard is opened in every run")
@pytest.mark.slow
def test_what_cannot_be_shown_is_said_as_the_command_says_it(home):
    with (
        contextlib.closing(tensorboards.TensorBoards(home)) as boards,
        pytest.raises(errors.QuintainError, match="trial 99"),
    ):
        boards.open(experiment_id=None, trial_ids=[99], run_dirs=[])
