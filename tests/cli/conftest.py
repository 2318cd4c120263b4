import contextlib
import dataclasses
import json

import pytest

from quintain import errors
from quintain.cli import connect, main
from quintain.client import calls
from quintain.client.home import home as home_lib
from quintain.master import scheduling, shared_state, user_commands
from quintain.records.config import provenance
from quintain.records.rows import checkpoint, experiment, log, metric, states, trial
from quintain.records.views import following, importance, master_status, seeds, trial_table
from quintain.server import direct_calls
from quintain.store import store as store_lib
from quintain.testing import store_case

TINY = {
    "task.model.embedding_width": 8,
    "task.model.encoder.num_layers": 1,
    "task.model.decoder.num_layers": 1,
    "task.model.encoder.num_attention_heads": 2,
    "task.model.decoder.num_attention_heads": 2,
    "task.model.encoder.intermediate_size": 8,
    "task.model.decoder.intermediate_size": 8,
    "task.model.beam_size": 1,
    "task.model.extra_decode_length": 1,
    "task.vocab_size": 200,
    "task.max_vocab_pairs": 300,
    "task.train_data.global_batch_size": 512,
    "task.validation_data.global_batch_size": 64,
    "trainer.steps_per_loop": 2,
    "trainer.summary_interval": 2,
    "trainer.checkpoint_interval": 2,
    "trainer.validation_interval": 4,
    "trainer.validation_steps": 1,
    "trainer.train_steps": 4,
}


@pytest.fixture
def quintain(capfd):
    """Returns a function that runs the command line: (exit code, stdout, stderr)."""

    def run(*arguments):
        code = main.run([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def tiny():
    """Overrides that make a translation experiment run in seconds."""
    return "--params-override=" + ",".join(f"{name}={value}" for name, value in TINY.items())


ACTIVE, PAUSED = states.ExperimentState.ACTIVE, states.ExperimentState.PAUSED
COMPLETED = states.ExperimentState.COMPLETED

CONFIG = {
    "name": "digits",
    "entrypoint": "model_def:Digits",
    "searcher": {"name": "random", "metric": "accuracy", "smaller_is_better": False},
    "resources": {"slots_per_trial": 1, "max_slots": None},
    "checkpoint_storage": {"save_trial_best": 1},
}
UUID = "0b1c2d3e-0000-0000-0000-000000000001"
OTHER_UUID = "0b1c2d3e-0000-0000-0000-000000000002"


def build_trial(number, state="COMPLETED", best=None, **fields):
    return trial.TrialRecord(
        **{
            "id": number,
            "experiment_id": 1,
            "request_id": f"r{number}",
            "state": states.TrialState(state),
            "hparams": {"lr": 0.1 / number, "net": {"units": 8 * number}},
            "seed": number,
            "total_batches": 100 * number,
            "best_metric": best,
            "latest_metric": best,
            **fields,
        }
    )


class FakeCalls(calls.Calls):
    """Two experiments, three trials, two checkpoints."""

    def __init__(self):
        self.experiments = {
            1: experiment.Experiment(
                1, COMPLETED, CONFIG, "name: digits\n", "/m", labels=("a", "b"), progress=1.0,
                start_time=1000.0, end_time=1090.0,
            ),
            2: experiment.Experiment(2, ACTIVE, {**CONFIG, "name": "two"}, "", "/m", "second"),
            3: experiment.Experiment(3, COMPLETED, CONFIG, "", "/m", is_archived=True),
        }  # fmt: skip
        self.trials = {
            1: build_trial(1, best=0.5),
            2: build_trial(2, best=0.75),
            3: build_trial(3, "ERROR", reason="ValueError: no luck"),
        }
        self.checkpoints = {
            UUID: checkpoint.Checkpoint(UUID, 2, 1, 150, files={"weights.h5": 2048}, metric=0.75),
            OTHER_UUID: checkpoint.Checkpoint(OTHER_UUID, 2, 1, 200, files={"a": 1}, metric=0.6),
        }
        self.logs = [
            log.LogRow(1, 10.0 + number, log.LogSource.STDOUT, f"line {number}", number)
            for number in range(1, 6)
        ]
        self.metrics = [
            metric.MetricRow(1, metric.MetricGroup.TRAINING, 50, {"loss": 0.5}, 10, 1.0),
            metric.MetricRow(1, metric.MetricGroup.TRAINING, 100, {"loss": "NaN"}, 10, 2.0),
            metric.MetricRow(1, metric.MetricGroup.VALIDATION, 100, {"accuracy": 0.5}, 10, 2.0),
        ]
        self.files = {"weights.h5": "w" * 2048, "export/1/saved_model.pb": "pb", "model.keras": "k"}
        self.provenance = provenance.Provenance(
            1000.0, ("quintain", "experiment", "create", "a b.yaml"), "/me", "3.12.1", "Linux",
            "host", "Processor", 2, 8_000_000_000, {"keras": "3.15"},
            provenance.GitState("0123abcd", "main", is_dirty=True, diff="+\x1b[31mred\n"),
        )  # fmt: skip
        self.done = []

    def get_status(self):
        return master_status.MasterStatus(
            (master_status.SlotStatus(0, "cpu", num_threads=1, trial_id=9, experiment_id=2),),
            (master_status.ExperimentStatus(2, ACTIVE, 0.25, 90.0, (9,), (10,)),),
        )

    def get_summary(self):
        return master_status.MasterSummary(
            1, num_busy_slots=1,
            experiments=(
                master_status.ExperimentSummary(2, ACTIVE, 0.25, 90.0, 1, 1, num_slots=1),
            ),
        )  # fmt: skip

    def list_experiments(self, *, include_archived=False, state_names=(), labels=(), projects=()):
        return [
            one
            for one in self.experiments.values()
            if (include_archived or not one.is_archived)
            and (not state_names or one.state in state_names)
            and set(labels) <= set(one.labels)
            and (not projects or one.project in projects)
        ]

    def get_experiment(self, experiment_id):
        return self._get(self.experiments, "experiment", experiment_id)

    def follow(self, experiment_id, cursor=""):
        own = [one for one in self.get_status().experiments if one.experiment_id == experiment_id]
        found = self.get_experiment(experiment_id)
        trials = self.list_trials(experiment_id)
        status = own[0] if own else None
        return following.Following("c-1", not cursor, trials, found, status, self.get_summary())

    def list_events(self, experiment_id, *, after=0):
        return []

    def list_trials(self, experiment_id=None, *, state_names=()):
        if experiment_id is not None:
            self.get_experiment(experiment_id)
        return [
            one
            for one in self.trials.values()
            if experiment_id in (None, one.experiment_id)
            and (not state_names or one.state in state_names)
        ]

    def get_table(self, experiment_id):
        trials = self.list_trials(experiment_id)
        columns = {name: [getattr(one, name) for one in trials] for name in trial_table.COLUMNS}
        hparams = trial_table.to_hparam_columns([json.dumps(one.hparams) for one in trials])
        best = [one.best_metric for one in trials]
        metrics = {"validation/accuracy": trial_table.MetricColumns("max", best, best, best)}
        return trial_table.TrialTable("", len(trials), columns, hparams, metrics)

    def select_trials(self, experiment_id, selection):
        rows = self.get_table(experiment_id).select(selection.where, selection.sort)
        return [self.list_trials(experiment_id)[row] for row in selection.cut(rows)]

    def list_best(self, experiment_id, *, top=10):
        searcher = self.get_experiment(experiment_id).config["searcher"]
        return seeds.list_standings(self.list_trials(experiment_id), searcher, top)

    def get_importances(self, experiment_id, *, metric_name="", evaluator):
        self.get_experiment(experiment_id)
        if metric_name == "new":
            return importance.Importances(evaluator, 2, problem="2 trials have a finite value.")
        return importance.Importances(evaluator, 9, (("lr", 0.75), ("net.units", 0.25)))

    def get_trial(self, trial_id):
        return self._get(self.trials, "trial", trial_id)

    def list_batch_metrics(self, trial_id, *, after_batches=-1):
        del trial_id, after_batches
        return [metric.BatchRow(number, {"loss": 1.0 / number}) for number in (1, 2)]

    def list_metrics(self, trial_id, *, group=None, after_batches=-1):
        return [
            row
            for row in self.metrics
            if row.trial_id == trial_id
            and group in (None, row.group)
            and row.total_batches > after_batches
        ]

    def list_logs(self, trial_id, which=log.ALL):
        self.get_trial(trial_id)
        rows = [
            row
            for row in self.logs
            if row.trial_id == trial_id
            and row.id > which.after
            and which.source in (None, row.source)
            and (which.contains or "") in row.text
        ]
        return rows[: which.limit] if which.last is None else rows[len(rows) - which.last :]

    def list_checkpoints(self, *, experiment_id=None, trial_id=None, state_names=()):
        return [
            one
            for one in self.checkpoints.values()
            if experiment_id in (None, one.experiment_id)
            and trial_id in (None, one.trial_id)
            and (not state_names or one.state in state_names)
        ]

    def get_checkpoint(self, uuid):
        return self._get(self.checkpoints, "checkpoint", uuid)

    def fetch_checkpoint(self, uuid, directory):
        names = self._fetch(directory)
        manifest = {"format": 1, "kind": "K", "total_batches": 5, "experiment_id": 1}
        manifest |= {"trial_id": 2, "seed": 3, "hparams": {}}
        (directory / "metadata.json").write_text(json.dumps(manifest))
        return names

    def fetch_model_dir(self, experiment_id, directory):
        return self._fetch(directory)

    def create_experiment(self, config_text, model_dir, **options):
        self.done.append(("create", config_text, model_dir, options))
        self.experiments[4] = experiment.Experiment(4, ACTIVE, CONFIG, config_text, "/m")
        return self.experiments[4]

    def apply(self, experiment_id, command):
        former = self.get_experiment(experiment_id)
        if command == "archive" and not former.state.is_terminal:
            raise errors.StateError(f"Experiment {experiment_id} is {former.state.value}.")
        self.done.append((command, experiment_id))
        if command == "pause" and not former.state.is_terminal:
            self.experiments[experiment_id] = dataclasses.replace(former, state=PAUSED)
        return self.experiments[experiment_id]

    def delete_experiment(self, experiment_id):
        self.get_experiment(experiment_id)
        self.done.append(("delete", experiment_id))

    def update_experiment(self, experiment_id, changes):
        former = self.get_experiment(experiment_id)
        self.done.append(("update", experiment_id, dict(changes)))
        if "labels" in changes:
            former = dataclasses.replace(former, labels=tuple(changes["labels"]))
        if "checkpoint_storage" in changes:
            storage = {**former.config["checkpoint_storage"], **changes["checkpoint_storage"]}
            config = {**former.config, "checkpoint_storage": storage}
            former = dataclasses.replace(former, config=config)
        self.experiments[experiment_id] = former
        return former

    def fork_experiment(self, experiment_id, config_text, overrides):
        self.done.append(("fork", experiment_id, config_text, tuple(overrides)))
        return self.experiments[2]

    def rewind_experiment(self, experiment_id, to_trial, searcher, space_text, overrides):
        given = (to_trial, searcher, space_text, tuple(overrides))
        self.done.append(("rewind", experiment_id, *given))
        return self.experiments[2]

    def continue_experiment(self, experiment_id, overrides):
        self.done.append(("continue", experiment_id, tuple(overrides)))
        return self.experiments[1]

    def kill_trial(self, trial_id):
        self.done.append(("kill trial", trial_id))
        return self.get_trial(trial_id)

    def note_trial(self, trial_id, note):
        self.done.append(("note trial", trial_id, note))
        return self.get_trial(trial_id)

    def rerun_trial(self, trial_id):
        self.done.append(("rerun trial", trial_id))
        return self.experiments[2]

    def continue_trial(self, trial_id, overrides):
        self.done.append(("continue trial", trial_id, overrides))
        return self.experiments[2]

    def get_provenance(self, experiment_id):
        self.get_experiment(experiment_id)
        if experiment_id != 1:
            raise errors.NotFoundError(f"experiment {experiment_id}: it is not known.")
        return self.provenance

    def delete_checkpoint(self, uuid):
        self.done.append(("delete checkpoint", uuid))
        return self.get_checkpoint(uuid)

    def list_orphans(self):
        return [
            checkpoint.Orphan("/h/checkpoints/aaaa-1", 2048, 10.0, "h", 1, 2, 50),
            checkpoint.Orphan("/h/checkpoints/aaaa-2", 10, 20.0, problem="it has no manifest"),
        ]

    def adopt_orphan(self, name):
        self.done.append(("adopt", name))
        return checkpoint.Checkpoint(name, 2, 1, 50)

    def delete_orphan(self, name):
        self.done.append(("delete orphan", name))
        return self.list_orphans()[0]

    def _get(self, records, kind, name):
        if name not in records:
            raise errors.NotFoundError(f"{kind} {name}: there is none.")
        return records[name]

    def _fetch(self, directory):
        for name, text in self.files.items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(text)
        return [str(directory / name) for name in self.files]


@pytest.fixture
def calls_fake(monkeypatch, tmp_path):
    """Gives commands the experiments of a `FakeCalls`."""
    fake = FakeCalls()

    @contextlib.contextmanager
    def give(**_):
        yield fake

    monkeypatch.setattr(connect, "open_calls", give)
    monkeypatch.setattr(connect, "open_client", give)
    monkeypatch.setenv("QUINTAIN_HOME", str(tmp_path / "home"))
    return fake


class Registry(direct_calls.DirectCalls):
    """Reads from the store, and gives commands to what a master has."""

    def __init__(self, store, home):
        super().__init__(store, home)
        shared = shared_state.SharedState(store, home.path)
        idle = scheduling.Scheduling.__new__(scheduling.Scheduling)
        self._commands = user_commands.Commands(shared, idle)

    def register_model(self, name, uuid, **given):
        return self._commands.register_model(name, checkpoint=uuid, **given)

    def register_path(self, name, receipt, **given):
        return self._commands.register_path(name, receipt=receipt, **given)

    def promote_model(self, *args, **rule):
        return self._commands.promote_model(*args, **rule)

    def delete_model(self, *args, **given):
        return self._commands.delete_model(*args, **given)


@pytest.fixture
def registry(monkeypatch, tmp_path):
    """Gives commands a real store and a master's commands, without its process."""
    monkeypatch.setenv("QUINTAIN_HOME", str(tmp_path / "home ü"))
    home = home_lib.find_home()
    home.create()
    with contextlib.closing(store_lib.open_store(home.database)) as store:
        client = Registry(store, home)
        monkeypatch.setattr(connect, "open_client", lambda: contextlib.nullcontext(client))
        monkeypatch.setattr(connect, "open_calls", lambda: contextlib.nullcontext(client))
        yield client


@pytest.fixture
def trial_ids(registry, tmp_path):
    """An experiment with two trials, of which the second is the better one."""
    with registry.store.transaction() as session:
        searcher = {"name": "random", "metric": "accuracy", "smaller_is_better": False}
        record = store_case.new_experiment(config={"searcher": searcher}, model_dir="")
        owner = session.add_experiment(record).id
        ids = []
        for number, value in ((1, 0.5), (2, 0.75)):
            record = store_case.new_trial(owner, seed=number, best_metric=value)
            ids.append(session.add_trial(record).id)
            uuid = f"{number:04}"
            directory = tmp_path / "home ü" / "checkpoints" / uuid
            directory.mkdir(parents=True)
            (directory / "model.keras").write_text(uuid)
            session.add_checkpoint(checkpoint.Checkpoint(uuid, ids[-1], owner, 10, metric=value))
    return ids


@pytest.fixture
def export(tmp_path):
    """The directory of a SavedModel, as far as its names go."""
    directory = tmp_path / "exports" / "mine"
    (directory / "variables").mkdir(parents=True)
    (directory / "saved_model.pb").write_text("graph")
    (directory / "variables" / "variables.index").write_text("index")
    return directory


@pytest.fixture
def write_run(tmp_path):
    """Writes the checkpoints of a run, which know the file of their data, and its settings."""
    import tensorflow as tf  # noqa: PLC0415 - most commands need none

    class Position(tf.train.experimental.PythonState):
        def __init__(self, step):
            self.step = step

        def serialize(self):
            return json.dumps({"files": {f"/data/{self.step}": "5:abc"}}).encode() + b"\nstate"

        def deserialize(self, string_value):
            raise NotImplementedError

    def write(*steps):
        directory = tmp_path / "run"
        directory.mkdir(exist_ok=True)
        for step in steps:
            checkpoint = tf.train.Checkpoint(data_position=Position(step))
            checkpoint.write(str(directory / f"ckpt-{step}"))
        (directory / "params.yaml").write_text("task: {x: 1}")
        return directory

    return write
