"""Fine-tuning checkpoints as they come: order, resumption, records, and errors."""

import dataclasses
import json
import os
import shutil

import keras
import pytest
import tensorflow as tf

from quintain import errors, orbit
from quintain.checkpoints import checkpoints
from quintain.core import base_task, task_factory
from quintain.distribute import distribution
from quintain.nlp import continuous_finetune_lib
from quintain.run import run_files, run_options, train_lib
from quintain.settings import config_definitions as cfg


@dataclasses.dataclass
class SumConfig(cfg.TaskConfig):
    train_data: cfg.DataConfig = cfg.DataConfig(is_training=True, global_batch_size=8)
    validation_data: cfg.DataConfig = cfg.DataConfig(is_training=False, global_batch_size=8)


class SumTask(base_task.Task):
    def build_model(self):
        model = keras.Sequential([keras.layers.Dense(1)])
        model.build((None, 3))
        return model

    def build_inputs(self, params, input_context=None):
        features = tf.random.stateless_normal([32, 3], seed=(1, 2))
        labels = tf.reduce_sum(features, axis=1, keepdims=True)
        dataset = tf.data.Dataset.from_tensor_slices((features, labels)).batch(8)
        return dataset.repeat() if params.is_training else dataset

    def build_losses(self, labels, model_outputs, aux_losses=None):
        return tf.reduce_mean(tf.square(labels - model_outputs))


@pytest.fixture(autouse=True)
def _task_is_registered():
    with task_factory.TASKS.temporarily():
        task_factory.register_task_cls(SumConfig)(SumTask)
        yield


def build_params(**trainer):
    return cfg.ExperimentConfig(
        task=SumConfig(),
        trainer=cfg.TrainerConfig(
            optimizer_config={
                "optimizer": {"type": "sgd"},
                "learning_rate": {"type": "constant", "constant": {"learning_rate": 0.1}},
            },
            **{
                "train_steps": 4,
                "steps_per_loop": 2,
                "summary_interval": 2,
                "checkpoint_interval": 2,
                "validation_interval": 2,
                "continuous_eval_timeout": 0,
                **trainer,
            },
        ),
        runtime=cfg.RuntimeConfig(distribution_strategy="one_device"),
    )


@pytest.fixture(scope="module")
def shared_source(tmp_path_factory):
    return tmp_path_factory.mktemp("source") / "run"


@pytest.fixture
def source(shared_source, tmp_path):
    """Directory of a pretraining with checkpoints at steps 2, 4 and 6."""
    if not shared_source.exists():
        params = build_params(train_steps=6)
        strategy = distribution.build_strategy(params.runtime)
        with strategy.scope():
            task = task_factory.get_task(params.task)
        train_lib.run_experiment(strategy, task, "train", params, str(shared_source))
    shutil.copytree(shared_source, tmp_path / "source")
    return tmp_path / "source"


def keep_until(source, step):
    """Makes the pretraining look as it did at `step`."""
    manager = checkpoints.CheckpointManager(tf.train.Checkpoint(), str(source))
    manager.discard([path for path in manager.checkpoints if int(path.split("-")[-1]) > step])


class Collector(orbit.Reporter):
    def __init__(self, on_message=None):
        self.messages, self.steps, self._do = [], [], on_message

    def on_message(self, text):
        self.messages.append(text)
        if self._do is not None:
            self._do(text)

    def on_train_loop(self, step, target_steps, output, loop_secs, num_steps):
        self.steps.append(step)

    @property
    def sources(self):
        return [text.split()[1].split("/")[-1] for text in self.messages if "Fine-tuning" in text]


def finetune(source, model_dir, *, pretrain_steps=6, trainer=None, **kwargs):
    params = build_params(**(trainer or {}))
    params.task.init_checkpoint = str(source)
    return continuous_finetune_lib.run_continuous_finetune(
        "continuous_train_and_eval",
        params,
        str(model_dir),
        run_post_eval=True,
        pretrain_steps=pretrain_steps,
        **kwargs,
    )


@pytest.mark.long("Each fine-tunes several times; the tests beside it do, too")
@pytest.mark.slow
def test_metrics_are_kept_under_the_step_of_the_pretraining_and_checkpoints_are_not(
    tmp_path, source
):
    best = {
        "best_checkpoint_export_subdir": "best",
        "best_checkpoint_eval_metric": "validation_loss",
        "best_checkpoint_metric_comp": "lower",
    }

    logs = finetune(source, tmp_path / "tuned", trainer=best)

    metrics = json.loads((tmp_path / "tuned" / "metrics-6.json").read_text())
    assert metrics["validation_loss"] == pytest.approx(float(logs["validation_loss"]))
    assert "best_validation_loss" in logs
    assert not (tmp_path / "tuned" / "checkpoint").exists()
    assert checkpoints.list_checkpoints(str(tmp_path / "tuned")) == []
    assert (tmp_path / "tuned" / "best_6" / "best_ckpt-4.index").exists()
    assert list((tmp_path / "tuned" / "eval").glob("events*"))


@pytest.mark.slow
def test_each_new_checkpoint_is_fine_tuned_from_its_own_weights(tmp_path, source):
    later = tmp_path / "later"
    shutil.copytree(source, later)
    keep_until(source, 2)

    def add_checkpoints(text):
        if "ckpt-2" in text:
            shutil.rmtree(source)
            shutil.copytree(later, source)

    reporter = Collector(add_checkpoints)

    finetune(source, tmp_path / "tuned", reporter=reporter)

    assert reporter.sources == ["ckpt-2", "ckpt-6"]
    first, second = (
        json.loads((tmp_path / "tuned" / f"metrics-{step}.json").read_text()) for step in (2, 6)
    )
    # Twice as many steps in all on the same data.
    assert second["validation_loss"] < first["validation_loss"]


@pytest.mark.slow
def test_a_restart_repeats_nothing_that_is_done(tmp_path, source):
    finetune(source, tmp_path / "tuned")
    reporter = Collector()

    finetune(source, tmp_path / "tuned", reporter=reporter)

    assert reporter.sources == []


@pytest.mark.slow
def test_an_interrupted_fine_tuning_is_finished_after_a_restart(tmp_path, source):
    class Stop(Collector):
        def on_train_loop(self, *args, **kwargs):
            interruption.request("test")

    reporter = Collector()
    with orbit.Interruption() as interruption, pytest.raises(orbit.Interrupted):
        finetune(source, tmp_path / "tuned", reporter=Stop(), interruption=interruption)

    finetune(source, tmp_path / "tuned", reporter=reporter)

    assert reporter.sources == ["ckpt-6"]
    assert reporter.steps == [4]


@pytest.mark.long("Each fine-tunes several times; the tests beside it do, too")
@pytest.mark.slow
def test_checkpoints_of_another_fine_tuning_in_the_directory_are_not_used(tmp_path, source):
    keep_until(source, 2)
    shutil.copytree(source, tmp_path / "tuned")
    (tmp_path / "tuned" / "continuous_finetune.json").write_text('{"done": [], "step": 1}')
    reporter = Collector()

    finetune(source, tmp_path / "tuned", pretrain_steps=2, reporter=reporter)

    assert reporter.steps == [2, 4]


def test_the_checkpoints_of_an_ordinary_run_are_not_deleted(tmp_path, source):
    keep_until(source, 2)
    shutil.copytree(source, tmp_path / "run")
    before = sorted(path.name for path in (tmp_path / "run").iterdir())

    with pytest.raises(errors.ConfigError, match="a run of another kind"):
        finetune(source, tmp_path / "run", pretrain_steps=2)

    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == before


@pytest.mark.parametrize("content", [b"", b'{"done": [1', b"\0\0\0", b"[]", b'{"done": [], "x\xc3'])
def test_a_damaged_state_is_named_and_nothing_is_deleted(tmp_path, source, content):
    state = tmp_path / "tuned" / "continuous_finetune.json"
    state.parent.mkdir()
    state.write_bytes(content)
    shutil.copy(source / "ckpt-6.index", state.parent)

    with pytest.raises(errors.DamagedFileError, match=r"continuous_finetune\.json: can't be"):
        finetune(source, state.parent, pretrain_steps=2)

    assert state.read_bytes() == content
    assert (state.parent / "ckpt-6.index").exists()


@pytest.mark.long("Each fine-tunes several times; the tests beside it do, too")
@pytest.mark.slow
def test_without_an_end_the_first_time_out_ends_it(tmp_path, source):
    assert "validation_loss" in finetune(source, tmp_path / "tuned", pretrain_steps=None)


def test_a_directory_that_does_not_come_is_an_error(tmp_path):
    with pytest.raises(errors.ConfigError, match="did not become a directory within 0 s"):
        finetune(tmp_path / "missing", tmp_path / "tuned", pretrain_steps=None)


def test_a_checkpoint_without_a_step_is_an_error(tmp_path):
    tf.train.CheckpointManager(tf.train.Checkpoint(), str(tmp_path / "source"), 1).save()

    with pytest.raises(errors.CheckpointError, match="holds no `global_step`"):
        finetune(tmp_path / "source", tmp_path / "tuned")


def test_a_single_checkpoint_is_an_error(tmp_path, source):
    with pytest.raises(errors.ConfigError, match="use mode train_and_eval"):
        finetune(source / "ckpt-6", tmp_path / "tuned")


def test_other_modes_are_an_error(tmp_path):
    with pytest.raises(errors.ConfigError, match="mode: got 'train'"):
        continuous_finetune_lib.run_continuous_finetune("train", build_params(), str(tmp_path))


@pytest.mark.long("Each fine-tunes several times; the tests beside it do, too")
@pytest.mark.slow
def test_a_run_from_a_config_leaves_its_params(tmp_path, source):
    params = build_params()
    params.task.init_checkpoint = str(source)

    continuous_finetune_lib.run_from_config(
        params, str(tmp_path / "tuned"), experiment="test/sum", pretrain_steps=6
    )

    assert os.path.exists(tmp_path / "tuned" / "params.yaml")
    assert (tmp_path / "tuned" / "metrics-6.json").exists()


@pytest.mark.long("Each fine-tunes several times; the tests beside it do, too")
@pytest.mark.slow
def test_checkpoints_can_be_written_in_the_foreground(tmp_path, source, monkeypatch):
    asked = []
    build = continuous_finetune_lib.runner_factory.build_runner

    def record(*args):
        asked.append(args[-1].enable_async_checkpointing)
        return build(*args)

    monkeypatch.setattr(continuous_finetune_lib.runner_factory, "build_runner", record)
    params = build_params()
    params.task.init_checkpoint = str(source)

    continuous_finetune_lib.run_from_config(
        params,
        str(tmp_path / "tuned"),
        experiment="test/sum",
        pretrain_steps=6,
        options=run_options.RunOptions(enable_async_checkpointing=False),
    )

    assert asked == [False]


@pytest.mark.long("Each fine-tunes several times; the tests beside it do, too")
@pytest.mark.slow
def test_a_fine_tuning_that_was_stopped_goes_on_with_its_settings_or_those_allowed(
    tmp_path, source
):
    params, model_dir = build_params(), tmp_path / "tuned"
    params.task.init_checkpoint = str(source)
    run_files.serialize_config(params, str(model_dir), experiment="test/sum")
    for path in source.glob("ckpt-6*"):
        shutil.copy(path, model_dir / path.name.replace("ckpt-6", "ckpt-2"))
    (model_dir / "continuous_finetune.json").write_text('{"done": [], "step": 2}')
    params.task.train_data.shuffle_buffer_size = 3

    with pytest.raises(errors.ConfigError, match=r"task\.train_data\.shuffle_buffer_size"):
        continuous_finetune_lib.run_from_config(params, str(model_dir), experiment="test/sum")
    continuous_finetune_lib.run_from_config(
        params,
        str(model_dir),
        experiment="test/sum",
        pretrain_steps=6,
        allow_config_change=True,
    )

    assert (model_dir / "params.yaml.1").exists()
    assert (model_dir / "metrics-6.json").exists()
