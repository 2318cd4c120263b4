import dataclasses
import json
import pathlib
import re
import sys
import threading

import numpy as np
import pytest

import quintain.registered_experiments  # noqa: F401 - registered before the tests make room for their own
from quintain import errors
from quintain.checkpoints import checkpoint_state, checkpoints, receipt_check, receipts
from quintain.core import exp_factory, task_factory
from quintain.input import file_marks
from quintain.records.rows import registered_model, trial
from quintain.trials import task_trial, trial_context
from quintain.trials.process import trial_checkpoint

CODE = """
import dataclasses

import keras
import tensorflow as tf

from quintain.core import base_task, exp_factory, task_factory
from quintain.core import config_definitions as cfg
from quintain.optimization import OptimizationConfig


@dataclasses.dataclass
class SumConfig(cfg.TaskConfig):
    train_data: cfg.DataConfig = cfg.DataConfig(is_training=True, global_batch_size=8)
    validation_data: cfg.DataConfig = cfg.DataConfig(is_training=False, global_batch_size=8)
    units: int = 4


@task_factory.register_task_cls(SumConfig)
class SumTask(base_task.Task):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.others = {"second": keras.optimizers.SGD(0.01, momentum=0.9)}

    def train_step(self, inputs, model, optimizer, metrics=None):
        features, labels = inputs
        with tf.GradientTape() as tape:
            loss = self.build_losses(labels, model(features, training=False))
        variables = model.trainable_variables
        gradients = tape.gradient(loss, variables)
        self.others["second"].apply_gradients(zip(gradients, variables, strict=True))
        return super().train_step(inputs, model, optimizer, metrics)

    def build_model(self):
        model = keras.Sequential(
            [keras.layers.Dense(self.task_config.units), keras.layers.Dropout(0.1),
             keras.layers.Dense(1)]
        )
        model.build((None, 3))
        model.compile(metrics=["mae"])
        return model

    def build_inputs(self, params, input_context=None):
        features = tf.random.stateless_normal([32, 3], seed=(1, 2))
        labels = tf.reduce_sum(features, axis=1, keepdims=True)
        dataset = tf.data.Dataset.from_tensor_slices((features, labels))
        if params.is_training:
            dataset = dataset.shuffle(32, seed=params.seed).repeat()
        return dataset.batch(params.global_batch_size)

    def build_losses(self, labels, model_outputs, aux_losses=None):
        return tf.reduce_mean(tf.square(labels - tf.cast(model_outputs, tf.float32)))

    def build_metrics(self, training=True):
        return [keras.metrics.MeanAbsoluteError(name="absolute_error")]


@exp_factory.register_config_factory("trial_test/sum")
def sum_experiment():
    return cfg.ExperimentConfig(
        task=SumConfig(),
        trainer=cfg.TrainerConfig(
            train_steps=100,
            validation_steps=-1,
            optimizer_config=OptimizationConfig(
                {
                    "optimizer": {"type": "adam"},
                    "learning_rate": {"type": "constant", "constant": {"learning_rate": 0.01}},
                }
            ),
        ),
    )
"""
RATE = "trainer.optimizer_config.learning_rate.constant.learning_rate"


@pytest.fixture(autouse=True)
def code(tmp_path):
    with task_factory.TASKS.temporarily(), exp_factory.EXPERIMENTS.temporarily():
        (tmp_path / "sum_experiment.py").write_text(CODE)
        path = list(sys.path)
        yield
        sys.path[:] = path
        sys.modules.pop("sum_experiment", None)


@pytest.fixture
def spec(tmp_path):
    return trial.TrialSpec(
        experiment_id=1,
        trial_id=2,
        experiment_config={"entrypoint": "experiment:trial_test/sum"},
        hparams={RATE: 0.02, "task": {"units": 6}, "global_batch_size": 4},
        seed=5,
        model_dir=str(tmp_path),
        entrypoint="experiment:trial_test/sum",
        checkpoint_dir=str(tmp_path / "checkpoints"),
        scratch_dir=str(tmp_path / "scratch"),
    )


def build(spec):
    return task_trial.build_controller(task_trial.TaskTrial, trial_context.TrialContext(spec))


@pytest.mark.slow
def test_a_training_in_two_processes_is_that_of_one_to_the_bit(spec):
    whole = build(spec)
    known = whole.list_validation_metrics()
    expected = [whole.train(3), whole.train(4)]
    final = whole.validate()
    assert sorted(known) == sorted(final.metrics)
    whole.close()
    assert whole.trainer.model.layers[0].units == 6
    assert expected[0].num_inputs == 12
    assert expected[0].metrics["learning_rate"] == pytest.approx(0.02)
    assert {"loss", "absolute_error"} <= expected[0].metrics.keys()
    assert "training_loss" not in expected[0].metrics  # The loss is there once.
    for measured in expected:
        error = measured.metrics["absolute_error"]
        assert measured.metrics["mae"] == pytest.approx(error, rel=1e-6)
    assert not [name for name in expected[0].metrics if name.endswith(("_ms", "_per_second"))]
    first = build(spec)
    found = [first.train(3)]
    first.validate()
    weights = sum(weight.numpy().nbytes for weight in first.trainer.model.weights)
    forecast = first.measure_state()
    stored = trial_checkpoint.save(first, spec, 3)
    assert 3 * weights <= forecast < sum(stored.files.values())  # Adam keeps two moments.
    first.close()
    path = pathlib.Path(spec.checkpoint_dir, stored.uuid)
    assert {"params.yaml", "metadata.json", "ckpt-3.index"} <= stored.files.keys()
    again = dataclasses.replace(spec, latest_checkpoint=str(path))
    second = build(again)
    assert trial_checkpoint.restore(second, again) == 3
    found.append(second.train(4))
    assert found == expected
    assert second.validate() == final
    second.close()

    warm = dataclasses.replace(again, is_warm_start=True, hparams={**spec.hparams, RATE: 0.5})
    third = build(warm)
    assert trial_checkpoint.restore(third, warm) == 0
    assert int(third.trainer.global_step.numpy()) == 0
    for left, right in zip(first.trainer.model.weights, third.trainer.model.weights, strict=True):
        np.testing.assert_array_equal(left, right)
    optimizer = third.trainer.optimizer
    assert int(optimizer.iterations.numpy()) == 3
    assert float(optimizer.learning_rate.numpy()) == 0.5
    others = [one.trainer.task.others["second"].variables for one in (first, third)]
    for left, right in zip(*others, strict=True):
        np.testing.assert_array_equal(left, right)
    third.close()


def test_endless_validation_data_are_refused_before_the_first_step(spec, tmp_path):
    endless = CODE.replace("if params.is_training:", "if True:")
    (tmp_path / "sum_experiment.py").write_text(endless)

    with pytest.raises(errors.ConfigError, match=r"task\.validation_data: the data never end"):
        build(spec)


def test_intervals_follow_a_loop_that_is_a_hyperparameter(spec):
    hparams = {"trainer.steps_per_loop": 300}
    params = task_trial.build_params(spec.experiment_config, hparams, spec.model_dir)

    assert params.trainer.summary_interval == 1200


def config(entrypoint="experiment:trial_test/sum", **hyperparameters):
    return {"entrypoint": entrypoint, "hyperparameters": hyperparameters}


def test_hyperparameters_that_are_settings_are_fine(tmp_path):
    space = {
        RATE: {"type": "log", "minval": -4, "maxval": -1, "base": 10.0},
        "task": {"units": {"type": "int", "minval": 2, "maxval": 8}},
        "batch_size": {"type": "categorical", "vals": [4, 8]},
    }
    labels = task_trial.check(config(**space), str(tmp_path))
    assert {name: label.best for name, label in labels.items()} == {
        "training_loss": "min",
        "validation_loss": "min",
    }


@pytest.mark.parametrize(
    ("hyperparameters", "words"),
    [
        ({"task.unit": 3}, ["hyperparameters.task.unit", "units"]),
        ({"task.units": {"type": "categorical", "vals": [3, "many"]}}, ["task.units", "'many'"]),
        (
            {"trainer.optimizer_config.learning_rate.cosine.alpha": 0.1},
            ["it would change nothing", "'constant'"],
        ),
        ({"task.unit": 3, "trainer.train_step": 1}, ["2 problems", "train_steps"]),
    ],
)
def test_hyperparameters_that_are_no_settings_are_errors(tmp_path, hyperparameters, words):
    with pytest.raises(errors.ConfigError) as raised:
        task_trial.check(config(**hyperparameters), str(tmp_path))
    for word in words:
        assert word in str(raised.value)


def test_only_elastic_trials_go_on_with_fewer_slots(tmp_path):
    resources = {"slots_per_trial": 2, "min_slots_per_trial": 1}

    task_trial.check(config(**{"runtime.elastic": True}) | {"resources": resources}, str(tmp_path))

    message = "resources.min_slots_per_trial: got 1 without runtime.elastic"
    rigid = config() | {"resources": resources}
    with pytest.raises(errors.ConfigError, match=re.escape(message)):
        task_trial.check(rigid, str(tmp_path))
    with pytest.raises(errors.ConfigError, match=re.escape(message)):
        task_trial.build_params(rigid, {}, str(tmp_path))


def test_an_experiment_that_is_not_registered_names_the_nearest(tmp_path):
    with pytest.raises(errors.ConfigError, match=r"entrypoint: .*trial_test/sum"):
        task_trial.check(config("experiment:trial_test/summ"), str(tmp_path))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CODE, "`register_config_factory`: sum_experiment.py.$"),
        ("1 / 0\n", "`register_config_factory`: none.$"),
        (CODE + "1 / 0\n", r"sum_experiment.py:\d+: importing this raised ZeroDivisionError"),
    ],
)
def test_an_experiment_that_is_not_registered_names_the_files_imported(tmp_path, text, words):
    (tmp_path / "sum_experiment.py").write_text(text)

    with pytest.raises(errors.ConfigError, match=words):
        task_trial.check(config("experiment:trial_test/none"), str(tmp_path))


def test_an_experiment_of_ones_own_needs_a_model_directory():
    with pytest.raises(errors.ConfigError, match="One of your own needs MODEL_DIR"):
        task_trial.check(config("experiment:trial_test/none"))


def test_an_experiment_of_several_tasks_is_refused():
    with pytest.raises(errors.ConfigError, match="one task in one stage"):
        task_trial.check(config("experiment:multitask/translation_local"))


def test_files_that_only_speak_of_experiments_are_not_imported(spec, tmp_path):
    (tmp_path / "notes.py").write_text("# register_config_factory is in the other file\n1 / 0\n")

    params = task_trial.build_params(spec.experiment_config, spec.hparams, str(tmp_path))

    assert params.task.units == 6


@pytest.mark.parametrize(
    ("optimizations", "setting"),
    [
        ({"aggregation_frequency": 2}, "gradient_accumulation_steps"),
        ({"mixed_precision": "O2"}, "mixed_precision_dtype"),
    ],
)
def test_what_an_experiment_says_itself_is_refused_in_the_config(tmp_path, optimizations, setting):
    with pytest.raises(errors.ConfigError, match=rf"got optimizations.*{setting}"):
        task_trial.check(config() | {"optimizations": optimizations}, str(tmp_path))


@pytest.mark.slow
def test_batches_are_counted_while_a_loop_goes_on(spec):
    controller = build(spec)
    controller.train(1)
    is_over, seen = threading.Event(), set()

    def look():
        while not is_over.wait(0.001):
            seen.add(controller.count_batches())

    thread = threading.Thread(target=look)
    thread.start()
    controller.train(1000)
    is_over.set()
    thread.join()
    assert controller.count_batches() == 1001
    assert seen & set(range(2, 1001))


@pytest.mark.slow
def test_the_log_has_a_line_for_each_loop_and_each_validation(spec, capsys):
    controller = build(spec)
    controller.train(2)
    controller.validate()
    controller.close()

    begun, trained, validated = capsys.readouterr().out.splitlines()
    assert begun == "Compiling the training step ..."
    assert re.fullmatch(r"step 2  loss .*examples/s.*", trained)
    assert re.fullmatch(r"evaluated step 2: loss .*\(\d+ s\)", validated)


@pytest.mark.slow
def test_a_checkpoint_says_which_files_were_its_data(spec, tmp_path):
    (tmp_path / "train.txt").write_text("hello")
    controller = build(spec)
    with file_marks.files_noted(is_training=True):
        file_marks.note(str(tmp_path / "train.txt"))
    controller.train(1)
    controller.save(str(tmp_path))
    controller.close()

    marks = json.loads((tmp_path / registered_model.DATA_FILE).read_text())
    assert marks[str(tmp_path / "train.txt")].startswith("5:")
    (path,) = checkpoints.list_checkpoints(str(tmp_path))
    assert checkpoint_state.read_data_marks(path) == marks
    assert receipts.read(path + receipts.SUFFIX).facts["data"] == marks
    assert receipt_check.verify(str(tmp_path), None).findings == []


@pytest.mark.slow
def test_receipts_of_a_trial_are_chained_also_after_it_was_paused(spec, tmp_path):
    directories = [tmp_path / name for name in ("a", "b ü", "c")]
    first = build(spec)
    for directory in directories:
        directory.mkdir()
    for directory in directories[:2]:
        first.train(1)
        first.save(str(directory))
    first.close()
    second = build(spec)
    second.restore(str(directories[1]), is_warm_start=False)
    second.train(1)
    second.save(str(directories[2]))
    second.close()

    chains = [receipts.read_chain(str(directory)) for directory in directories]
    assert [head["step"] for head in chains[2]] == [1, 2, 3]
    assert [chains[0], chains[1]] == [chains[2][:1], chains[2][:2]]
    assert receipt_check.verify(str(directories[2]), None).findings == []


@pytest.mark.slow
def test_a_trial_starts_from_a_checkpoint_but_for_what_is_excluded(spec, tmp_path):
    first = build(spec)
    first.train(1)
    first.save(str(tmp_path))
    given = {"task.init_exclude": ["*/kernel"], "task.init_checkpoint": str(tmp_path)}
    task_trial.check(config(**given), str(tmp_path))
    second = build(dataclasses.replace(spec, hparams=spec.hparams | given))
    second.validate()

    for ours, theirs in zip(second.trainer.model.weights, first.trainer.model.weights, strict=True):
        assert np.array_equal(ours, theirs) == (not ours.path.endswith("kernel"))
    for controller in (second, first):
        controller.close()
