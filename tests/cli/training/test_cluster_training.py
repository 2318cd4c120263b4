import contextlib
import json
import types

import pytest
from click.testing import CliRunner

import quintain.registered_experiments  # noqa: F401 - registers what is trained
from quintain import errors
from quintain.cli.main import cli
from quintain.cli.training import cluster_training
from quintain.records.config import experiment_spec
from quintain.records.rows import states
from quintain.records.views import master_status
from quintain.run import experiment_parser


def parse(**overrides):
    options = experiment_parser.ParseConfigOptions(
        experiment="translation/local",
        set=tuple(f"{name}={value}" for name, value in overrides.items()),
    )
    return experiment_parser.parse(options)


def test_a_run_is_an_experiment_of_one_trial_with_the_settings_that_were_changed():
    changes = {"trainer.train_steps": 70, "runtime.seed": 5, "trainer.checkpoint_interval": 20}
    config = cluster_training.build_config(parse(**changes), 4, 2)

    spec = experiment_spec.parse(config)
    assert spec.entrypoint == "experiment:translation/local"
    assert spec.hyperparameters == {
        "trainer.train_steps": {"type": "const", "val": 70},
        "trainer.checkpoint_interval": {"type": "const", "val": 20},
    }
    assert spec.searcher.max_length == 70
    assert spec.min_checkpoint_period == 20
    assert spec.resources.num_processes == spec.resources.slots_per_trial == 4
    assert spec.reproducibility.experiment_seed == 5
    assert spec.max_restarts == 2


def test_files_of_the_command_s_own_directory_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.tsv").write_text("")
    parsed = parse(**{"task.train_data.input_path": "mine.tsv"})

    with pytest.raises(errors.ConfigError, match=r"input_path: got 'mine.tsv'.*absolute path"):
        cluster_training.build_config(parsed, 2, 3)


@pytest.mark.parametrize(
    ("note", "message"),
    [
        (None, "has files, but no run"),
        ({"config": {"hyperparameters": {"a": {"val": 1}}}}, r"other settings \(a: 1 -> 2\)"),
    ],
)
def test_the_directory_of_another_run_is_left_alone(tmp_path, note, message):
    (tmp_path / "ckpt-1.index").write_text("")
    if note is not None:
        text = json.dumps({"experiment": 3, "time": 1.0, **note})
        (tmp_path / cluster_training.FILE_NAME).write_text(text)
    former = sorted(tmp_path.iterdir())

    with pytest.raises(errors.ConfigError, match=message):
        cluster_training._read_note(tmp_path, {"hyperparameters": {"a": {"val": 2}}})

    assert sorted(tmp_path.iterdir()) == former


@pytest.mark.parametrize(
    ("mode", "model_dir", "message"),
    [("eval", "run", "got --mode=eval"), ("train", "s3://a/b", "directory of this machine")],
)
def test_what_can_not_be_trained_on_a_cluster_is_refused(mode, model_dir, message):
    settings = {"num_slots": 2, "max_restarts": 3, "is_quiet": True}

    with pytest.raises(errors.ConfigError, match=message):
        cluster_training.run(None, mode=mode, model_dir=model_dir, **settings)


@pytest.mark.parametrize(
    ("state", "checkpoint", "advice", "is_bound"),
    [
        (states.ExperimentState.PAUSED, None, "The same command goes on with it.", True),
        (states.ExperimentState.CANCELED, "u", "The same command goes on with it.", True),
        (states.ExperimentState.ERROR, None, "Nothing was saved. Mend what failed", False),
        (states.ExperimentState.ERROR, "u", "once what failed is mended elsewhere", True),
    ],
)
def test_the_same_command_is_advised_only_where_it_can_go_on(
    tmp_path, monkeypatch, capsys, state, checkpoint, advice, is_bound
):
    trial = types.SimpleNamespace(latest_checkpoint=checkpoint)
    calls = types.SimpleNamespace(list_trials=lambda _: [trial])
    monkeypatch.setattr(
        cluster_training.connect, "open_calls", lambda: contextlib.nullcontext(calls)
    )
    ended = types.SimpleNamespace(id=3, state=state)

    def run(begin, **_):
        begin(types.SimpleNamespace(create_experiment=lambda *_, **__: started))
        return 1, ended

    started = types.SimpleNamespace(id=3, start_time=1.0)
    monkeypatch.setattr(cluster_training.foreground, "run", run)
    monkeypatch.setattr(cluster_training.sent_code, "find", lambda *_: {"model_dir": None})
    options = experiment_parser.ParseConfigOptions(experiment="translation/local")
    model_dir = tmp_path / "run"

    code = cluster_training.run(
        options, mode="train", model_dir=str(model_dir), num_slots=2, max_restarts=3, is_quiet=False
    )

    assert code == 1
    assert advice in capsys.readouterr().err
    assert (model_dir / cluster_training.FILE_NAME).exists() == is_bound
    other = {"hyperparameters": {"trainer.train_steps": {"val": 1}}}
    if is_bound:
        with pytest.raises(errors.ConfigError, match="other settings"):
            cluster_training._read_note(model_dir, other)
    else:
        assert cluster_training._read_note(model_dir, other) is None


class Started:
    """A master that is started in the background, with the flags that it got."""

    def __init__(self, monkeypatch, *left):
        self.flags = None
        self.left = [
            master_status.MasterSummary(num_remote_slots=each, awaited_nodes=awaited)
            for each, *awaited in (each if isinstance(each, tuple) else (each,) for each in left)
        ]
        client = types.SimpleNamespace(get_summary=lambda: self.left.pop(0))
        monkeypatch.setattr(cluster_training.home_lib, "find_master", lambda _: None)
        monkeypatch.setattr(cluster_training.connect, "start_in_background", self.start)
        monkeypatch.setattr(
            cluster_training.connect, "open_client", lambda **_: contextlib.nullcontext(client)
        )

    def start(self, home, *, flags):
        self.flags = list(flags)
        return types.SimpleNamespace(pid=1)


def test_a_master_that_is_started_for_ray_asks_for_nodes_where_there_are_none(monkeypatch):
    started = Started(monkeypatch, 0)

    assert cluster_training._find_ray_slots("auto", 4, is_quiet=True) == 0
    assert started.flags == ["--launcher=ray", "--ray-address=auto", "--ray-max-slots=4"]


def test_nodes_that_join_later_are_waited_for(monkeypatch):
    started = Started(monkeypatch, 0, 1, 3)
    monkeypatch.setattr(cluster_training, "_POLL_SECS", 0.0)

    assert cluster_training._find_ray_slots("auto", None, least=2, is_quiet=True) == 3
    assert not started.left


def test_all_nodes_that_are_there_are_waited_for_if_nobody_says_how_many(monkeypatch):
    started = Started(monkeypatch, (1, "b", "c"), (2, "c"), 3)
    monkeypatch.setattr(cluster_training, "_POLL_SECS", 0.0)

    assert cluster_training._find_ray_slots("auto", None, is_quiet=True) == 3
    assert not started.left


def test_a_node_that_does_not_come_is_named_and_not_left_out(monkeypatch):
    Started(monkeypatch, (1, "b"), (1, "b"))
    monkeypatch.setattr(cluster_training, "_NODES_SECS", 0.0)

    with pytest.raises(errors.ConfigError, match=r"heard of b, .*--cluster-workers=1"):
        cluster_training._find_ray_slots("auto", None, is_quiet=True)
    assert cluster_training._find_ray_slots("auto", None, least=1, is_quiet=True) == 1


def test_without_asking_there_have_to_be_nodes(monkeypatch):
    started = Started(monkeypatch, 0)
    monkeypatch.setattr(cluster_training, "_NODES_SECS", 0.0)

    with pytest.raises(errors.ConfigError, match="no machines beside its own"):
        cluster_training._find_ray_slots("auto", None, is_quiet=True)
    assert started.flags == ["--launcher=ray", "--ray-address=auto"]


def test_nodes_are_asked_for_on_a_ray_cluster_only(tmp_path):
    done = CliRunner().invoke(
        cli,
        [
            *("train", "--experiment=translation/local", f"--model-dir={tmp_path}/x"),
            *("--cluster-workers=2", "--ray-max-slots=2"),
        ],
    )

    assert isinstance(done.exception, errors.ConfigError)
    assert str(done.exception).startswith("--ray-max-slots: is for a Ray cluster")
