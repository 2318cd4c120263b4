import dataclasses
import errno
import pathlib
import threading
import time
import types

import pytest

from quintain import errors
from quintain.records import checkpoint_manifest
from quintain.records.rows import exit_codes, trial, workload
from quintain.storage import retries
from quintain.trials import base_trial, trial_context
from quintain.trials.process import local, workload_loop


class FakeController(base_trial.TrialController):
    """Counts batches; `self.faults` says what is to be raised when."""

    faults = types.MappingProxyType({})
    known_metrics = None

    def __init__(self, context):
        super().__init__(None, context)
        self.batches = 0
        self.is_closed = False

    def _fail(self, name):
        if name in self.faults:
            raise self.faults[name]

    def list_validation_metrics(self):
        return self.known_metrics

    def train(self, num_batches):
        self._fail("train")
        losses = [{"loss": 1.0 / (self.batches + number + 1)} for number in range(num_batches)]
        self.batches += num_batches
        return base_trial.TrainResult(8 * num_batches, losses)

    def validate(self):
        self._fail("validate")
        return base_trial.ValidationResult({"error": 0.5, "name": b"x"}, 4)

    def save(self, directory):
        self._fail("save")
        with open(f"{directory}/state", "w", encoding="utf-8") as file:
            file.write(str(self.batches))

    def restore(self, directory, *, is_warm_start):
        with open(f"{directory}/state", encoding="utf-8") as file:
            self.batches = int(file.read())

    def close(self):
        self.is_closed = True


@pytest.fixture
def run(tmp_path, monkeypatch):
    built = []

    def build(spec, stack):
        controller = FakeController(trial_context.TrialContext(spec))
        built.append(controller)
        return controller

    monkeypatch.setattr(workload_loop, "build_controller", build)

    def run(tasks, *, faults=None, checkpoint=None, metric="error", is_built=True):
        monkeypatch.setattr(FakeController, "faults", faults or {})
        spec = trial.TrialSpec(
            experiment_id=1,
            trial_id=2,
            experiment_config={"searcher": {"metric": metric}},
            hparams={},
            seed=3,
            model_dir=str(tmp_path),
            entrypoint=None,
            checkpoint_dir=str(tmp_path / "checkpoints"),
            scratch_dir=str(tmp_path),
            checkpoint=checkpoint,
            home_id="home",
            launch_id="t2-a",
        )
        source = local.LocalSource(spec, tasks)
        code = workload_loop.run(source)
        assert not is_built or built[-1].is_closed
        return code, source, built[-1] if is_built else None

    return run


def test_workloads_are_done_in_order_and_measured(run):
    code, source, _ = run([("TRAIN", 2), ("VALIDATE", 0), ("CHECKPOINT", 0)])
    train, validation, checkpoint, end = source.results
    assert code == exit_codes.ExitCode.DONE
    assert (train.metrics, train.num_inputs) == ({"loss": 0.75}, 16)
    assert train.batch_metrics == [{"loss": 1.0}, {"loss": 0.5}]
    assert validation.metrics == {"error": 0.5}
    assert {"state", "metadata.json", "random_state.json"} <= checkpoint.checkpoint.files.keys()
    assert end.workload.kind is workload.WorkloadKind.TERMINATE


class NotedController(FakeController):
    """Trains until its source has been told twice how far it is."""

    def count_batches(self):
        return 100 + self.batches

    def train(self, num_batches):
        for _ in range(2):
            self.batches += 1
            assert self.told.wait(60.0)
            self.told.clear()
        self.batches += num_batches - 2
        return base_trial.TrainResult(num_batches, [{"loss": 1.0}] * num_batches)


def test_a_source_is_told_now_and_then_how_far_a_workload_is(run, monkeypatch):
    told, notes = threading.Event(), []

    def note(source, number, batches):
        if batches and (number, batches) not in notes:
            notes.append((number, batches))
            told.set()

    monkeypatch.setattr(local.LocalSource, "note_steps", note)
    monkeypatch.setattr(workload_loop, "_NOTE_SECS", 0.001)
    monkeypatch.setattr(NotedController, "told", told, raising=False)
    monkeypatch.setitem(run.__globals__, "FakeController", NotedController)
    code, _, _ = run([("TRAIN", 4), ("VALIDATE", 0), ("TRAIN", 3)])
    assert (code, notes) == (exit_codes.ExitCode.DONE, [(1, 1), (1, 2), (3, 1), (3, 2)])


def test_a_checkpoint_is_gone_on_with(run, tmp_path):
    _, source, _ = run([("TRAIN", 3), ("CHECKPOINT", 0)])
    uuid = source.results[1].checkpoint.uuid
    _, source, controller = run([("TRAIN", 1)], checkpoint=uuid)
    assert controller.batches == 4
    assert source.results[0].workload.total_batches == 3


class FallingBack(local.LocalSource):
    """Has an older checkpoint for each that is damaged, until there is none."""

    older = ()

    def report_damage(self, checkpoint, damage):
        self.told = [*getattr(self, "told", []), damage]
        if not self.older:
            raise errors.CheckpointError("there is no other one")
        self._spec = dataclasses.replace(self._spec, checkpoint=self.older[0])
        self.older = self.older[1:]
        return self._spec


@pytest.fixture
def saved(run):
    """Returns two checkpoints, after 1 and after 3 batches."""
    _, source, _ = run([("TRAIN", 1), ("CHECKPOINT", 0), ("TRAIN", 2), ("CHECKPOINT", 0)])
    return [source.results[index].checkpoint.uuid for index in (1, 3)]


@pytest.mark.parametrize("size", [0, 1])
def test_a_damaged_checkpoint_is_told_and_an_older_one_gone_on_from(
    run, saved, tmp_path, monkeypatch, capsys, size
):
    older, newest = saved
    pathlib.Path(tmp_path, "checkpoints", newest, "state").write_bytes(b"x" * size)
    monkeypatch.setattr(local, "LocalSource", FallingBack)
    monkeypatch.setattr(FallingBack, "older", (older,))
    code, source, controller = run([("TRAIN", 1)], checkpoint=newest)
    assert (code, controller.batches) == (exit_codes.ExitCode.DONE, 2)
    assert len(source.told) == 1
    assert "state" in source.told[0]
    assert f"Checkpoint {newest} is damaged: state" in capsys.readouterr().err


def test_no_whole_checkpoint_is_one_error_and_no_restart(run, saved, tmp_path, monkeypatch):
    for name in saved:
        pathlib.Path(tmp_path, "checkpoints", name, "random_state.json").write_text("")
    monkeypatch.setattr(local, "LocalSource", FallingBack)
    monkeypatch.setattr(FallingBack, "older", (saved[0],))
    code, source, _ = run([("TRAIN", 1)], checkpoint=saved[1], is_built=False)
    assert code == exit_codes.ExitCode.UNUSABLE
    assert source.exits == [("unusable", "there is no other one")]


def test_a_storage_that_is_not_there_is_waited_for(run, saved, tmp_path, capsys):
    (tmp_path / "checkpoints").rename(tmp_path / "elsewhere")
    code, source, _ = run([("TRAIN", 1)], checkpoint=saved[0], is_built=False)
    assert (code, source.exits) == (exit_codes.ExitCode.NO_ROOM, [])
    said = capsys.readouterr().err
    assert "A disk can't be used: " in said
    assert "the directory of the checkpoints is not there. Is its disk mounted?" in said


@pytest.mark.parametrize(("saved_bytes", "asked"), [(0, 700), (500, 500)])
def test_processes_of_a_trial_ask_for_room_before_their_first_save(monkeypatch, saved_bytes, asked):
    context = types.SimpleNamespace(
        distributed=types.SimpleNamespace(size=2), get_experiment_config=dict
    )
    controller = types.SimpleNamespace(context=context, measure_state=lambda: 700)
    loop = workload_loop._Loop(types.SimpleNamespace(experiment_config={}), controller, None)
    loop._saved_bytes = saved_bytes
    waits = []
    monkeypatch.setattr(
        workload_loop.shared_disk_space, "wait", lambda *given: waits.append(given[2])
    )

    loop._await_room(lambda: None)

    assert waits == [asked]


@pytest.mark.parametrize("kind", ["TRAIN", "VALIDATE", "CHECKPOINT"])
def test_work_for_another_state_is_not_done(run, monkeypatch, kind):
    number = local.LocalSource._number

    def count_wrongly(source, tasks):
        for task in number(source, tasks):
            yield dataclasses.replace(task, total_batches=7)

    monkeypatch.setattr(local.LocalSource, "_number", count_wrongly)
    with pytest.raises(errors.GoneError, match="for 7 batches, but this process has trained on 0"):
        run([(kind, 1)])


def test_a_checkpoint_says_whose_it_is_and_leaves_nothing_unfinished(run, tmp_path):
    _, source, _ = run([("CHECKPOINT", 0)])
    directory = tmp_path / "checkpoints" / source.results[0].checkpoint.uuid
    manifest = checkpoint_manifest.read(directory)
    assert (manifest.experiment_id, manifest.trial_id) == (1, 2)
    assert (manifest.home_id, manifest.launch_id) == ("home", "t2-a")
    assert manifest.hashes.keys() == {"state", "random_state.json"}
    assert list((tmp_path / "checkpoints").iterdir()) == [directory]


@pytest.mark.parametrize(
    ("fault", "code", "reason", "words"),
    [
        (ValueError("boom"), exit_codes.ExitCode.ERROR, "errored_at_start", "ValueError: boom"),
        (
            base_trial.InvalidHP("too wide"),
            exit_codes.ExitCode.INVALID_HPARAMS,
            "invalid_hp",
            "too wide",
        ),
        (MemoryError(), exit_codes.ExitCode.OUT_OF_MEMORY, "errored", "no memory"),
        (SystemExit(0), exit_codes.ExitCode.ERROR, "errored_at_start", "sys.exit(0)"),
    ],
)
@pytest.mark.parametrize("where", ["train", "validate"])
def test_what_the_user_s_code_raises_is_reported(run, capsys, where, fault, code, reason, words):
    found, source, _ = run([("TRAIN", 1), ("VALIDATE", 0)], faults={where: fault})
    assert found == code
    ((told, message),) = source.exits
    # The validation comes after the first batches.
    assert told == (reason if where == "train" else reason.removesuffix("_at_start"))
    assert words in message
    assert words in capsys.readouterr().err


def test_a_metric_that_is_not_measured_ends_the_trial_for_good(run):
    code, source, _ = run([("VALIDATE", 0)], metric="eror")
    assert code == exit_codes.ExitCode.UNUSABLE
    assert "Did you mean 'error'?" in source.exits[0][1]


def test_a_metric_that_will_not_be_measured_ends_the_trial_before_its_first_batch(run, monkeypatch):
    monkeypatch.setattr(FakeController, "known_metrics", ["error"])
    code, source, controller = run([("TRAIN", 1)], metric="eror")
    assert code == exit_codes.ExitCode.UNUSABLE
    assert "Did you mean 'error'?" in source.exits[0][1]
    assert (controller.batches, source.results) == (0, [])


def test_a_save_that_fails_leaves_nothing(run, tmp_path):
    code, _, _ = run([("CHECKPOINT", 0)], faults={"save": OSError("disk full")})
    assert code == exit_codes.ExitCode.ERROR
    assert list((tmp_path / "checkpoints").iterdir()) == []


@pytest.mark.parametrize(
    "full",
    [
        OSError(errno.ENOSPC, "No space left on device", "state"),
        RuntimeError("state; No space left on device [Op:SaveV2]"),
        errors.OutputError("state: No space left on device. Free some space."),
    ],
)
def test_a_checkpoint_waits_for_room(run, tmp_path, monkeypatch, full):
    faults = {"save": full}

    def make_room(secs):
        del secs
        assert list((tmp_path / "checkpoints").iterdir()) == []
        FakeController.faults.clear()

    sleeping = types.SimpleNamespace(**{**vars(time), "sleep": make_room})
    monkeypatch.setattr(retries, "time", sleeping)
    tasks = [("TRAIN", 2), ("CHECKPOINT", 0), ("TRAIN", 1)]
    code, source, controller = run(tasks, faults=faults)
    assert (code, source.exits, controller.batches) == (exit_codes.ExitCode.DONE, [], 3)
    (saved,) = (tmp_path / "checkpoints").iterdir()
    assert checkpoint_manifest.find_damage(saved, source.results[1].checkpoint.files) is None


def test_a_full_disk_elsewhere_ends_the_process_and_not_the_trial(run, capsys):
    full = OSError(errno.ENOSPC, "No space left on device", "cache/part")
    code, source, _ = run([("TRAIN", 2)], faults={"train": full})
    assert (code, source.exits) == (exit_codes.ExitCode.NO_ROOM, [])
    assert "cache/part" in capsys.readouterr().err
