import dataclasses
import random
import threading
import types

import pytest

from quintain import errors
from quintain.records.rows import exit_codes, trial, workload
from quintain.storage import directory_storage
from quintain.trials import base_trial, trial_context
from quintain.trials.process import local, workload_loop

KIND = workload.WorkloadKind


class DrawingController(base_trial.TrialController):
    """Draws its loss; `self.hooks` are called with the number of a batch."""

    hooks = types.MappingProxyType({})

    def __init__(self, context):
        super().__init__(None, context)
        self.batches = 0

    def train(self, num_batches):
        metrics = []
        for _ in range(num_batches):
            self.batches += 1
            self.hooks.get(self.batches, lambda context: None)(self.context)
            metrics.append({"loss": random.random()})
        return base_trial.TrainResult(num_batches, metrics)

    def validate(self):
        return base_trial.ValidationResult({"error": random.random()}, 4)

    def save(self, directory):
        with open(f"{directory}/state", "w", encoding="utf-8") as file:
            file.write(str(self.batches))

    def restore(self, directory, *, is_warm_start):
        with open(f"{directory}/state", encoding="utf-8") as file:
            self.batches = int(file.read())


class GatedStorage(directory_storage.DirectoryStorage):
    """Is remote; its uploads wait until `gate` is set, and then do what `outcome` does."""

    is_remote = True

    def __init__(self, place):
        super().__init__(place)
        self.gate = threading.Event()
        self.outcome = lambda: None

    def commit(self, directory, name):
        self.gate.wait()
        self.outcome()
        super().commit(directory, name)


class Source(local.LocalSource):
    """Gives workloads of which those after a checkpoint are told with it."""

    def __init__(self, spec, tasks, storage, asked=None):
        super().__init__(spec, tasks)
        numbered = list(self._workloads)
        for index, task in enumerate(numbered):
            if task.kind is KIND.CHECKPOINT:
                rest = [each for each in numbered[index + 1 :] if each.kind is not KIND.TERMINATE]
                numbered[index] = dataclasses.replace(task, following=tuple(rest))
        asked = asked or (lambda task: task)
        self._workloads = (asked(task) for task in numbered)
        self._storage = storage

    def open_storage(self, spec):
        return self._storage or super().open_storage(spec)

    def report(self, result):
        result_of = result.checkpoint
        if result_of is not None:  # What is told to be saved is saved.
            assert self.open_storage(self._spec).find_files(result_of.uuid)
        super().report(result)


@pytest.fixture
def spec(tmp_path):
    return trial.TrialSpec(
        experiment_id=1,
        trial_id=2,
        experiment_config={"searcher": {"metric": "error"}},
        hparams={},
        seed=3,
        model_dir=str(tmp_path),
        entrypoint=None,
        checkpoint_dir=str(tmp_path / "checkpoints"),
        scratch_dir=str(tmp_path),
        home_id="home",
        launch_id="t2-a",
    )


@pytest.fixture
def storage(tmp_path):
    return GatedStorage(tmp_path / "remote")


@pytest.fixture
def run(spec, monkeypatch):
    def build(spec, stack):
        random.seed(spec.seed)
        return DrawingController(trial_context.TrialContext(spec))

    monkeypatch.setattr(workload_loop, "build_controller", build)

    def run(storage, *, hooks=None, asked=None, tasks=TASKS):
        monkeypatch.setattr(DrawingController, "hooks", hooks or {})
        source = Source(spec, tasks, storage, asked)
        return workload_loop.run(source), source

    return run


TASKS = [("TRAIN", 2), ("CHECKPOINT", 0), ("TRAIN", 2), ("TRAIN", 1), ("VALIDATE", 0)]


def measured(source):
    return [(each.workload, each.metrics, each.batch_metrics) for each in source.results]


def test_training_goes_on_while_the_checkpoint_is_uploaded_and_measures_the_same(run, storage):
    # It is uploaded only after the fifth batch: if that were not trained before, this would hang.
    code, source = run(storage, hooks={5: lambda context: storage.gate.set()})

    assert code == exit_codes.ExitCode.DONE
    assert measured(source) == measured(run(None)[1])
    checkpoint, training = source.results[1:3]
    assert training.start_time < checkpoint.end_time


def stop(task):
    return dataclasses.replace(task, kind=KIND.TERMINATE) if task.kind is KIND.TRAIN else task


def test_what_was_done_ahead_is_forgotten_if_the_trial_is_to_end(run, storage):
    def fail(context):
        storage.gate.set()
        raise ValueError("never asked for")

    code, source = run(
        storage, hooks={3: fail}, asked=lambda task: task if task.number < 3 else stop(task)
    )

    assert code == exit_codes.ExitCode.DONE
    assert [each.workload.kind for each in source.results] == [
        KIND.TRAIN, KIND.CHECKPOINT, KIND.TERMINATE,
    ]  # fmt: skip
    assert source.exits == []


def test_process_ends_as_gone_if_something_else_is_asked(run, storage):
    def shorten(task):
        return dataclasses.replace(task, num_batches=1) if task.number == 3 else task

    with pytest.raises(errors.GoneError, match=r"Workload 3 \(TRAIN\).*workload 3 \(TRAIN\)"):
        run(storage, hooks={3: lambda context: storage.gate.set()}, asked=shorten)


def test_error_of_the_code_is_told_when_its_workload_is_asked_for(run, storage):
    def fail(context):
        storage.gate.set()
        raise ValueError("the third batch is bad")

    code, source = run(storage, hooks={3: fail})

    assert code == exit_codes.ExitCode.ERROR
    assert [each.workload.number for each in source.results] == [1, 2]
    [(reason, message)] = source.exits
    assert reason is workload.ExitedReason.ERRORED
    assert "the third batch is bad" in message


def test_wish_to_stop_belongs_to_the_workload_in_which_it_came(run, storage):
    def wish(context):
        context.set_stop_requested(True)
        storage.gate.set()

    _, source = run(storage, hooks={3: wish}, tasks=TASKS[:3])

    reasons = [each.exited_reason for each in source.results]
    assert reasons == [None, None, workload.ExitedReason.USER_CANCELED, None]


def test_upload_that_fails_is_the_only_outcome(run, storage):
    def refuse():
        raise errors.CheckpointError("s3://b/x: writing: no room")

    def fail(context):
        storage.gate.set()
        raise ValueError("not the cause")

    storage.outcome = refuse
    code, source = run(storage, hooks={3: fail})

    assert code == exit_codes.ExitCode.ERROR
    assert [each.workload.number for each in source.results] == [1]
    assert source.exits == [(workload.ExitedReason.ERRORED, "s3://b/x: writing: no room")]
    assert storage.list() == []
