import types

import pytest

from quintain.records import exit_codes, trial, workload
from quintain.trials import base_trial, local, workload_loop


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

    def build(spec):
        controller = FakeController(base_trial.TrialContext(spec))
        built.append(controller)
        return controller

    monkeypatch.setattr(workload_loop, "build_controller", build)

    def run(tasks, *, faults=None, checkpoint=None, metric="error"):
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
            latest_checkpoint=checkpoint,
        )
        source = local.LocalSource(spec, tasks)
        code = workload_loop.run(source)
        assert built[-1].is_closed
        return code, source, built[-1]

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


def test_a_checkpoint_is_gone_on_with(run, tmp_path):
    _, source, _ = run([("TRAIN", 3), ("CHECKPOINT", 0)])
    path = str(tmp_path / "checkpoints" / source.results[1].checkpoint.uuid)
    _, source, controller = run([("TRAIN", 1)], checkpoint=path)
    assert controller.batches == 4
    assert source.results[0].workload.total_batches == 3


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
