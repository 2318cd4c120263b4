import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.cli import main
from quintain.config import gin_io
from quintain.core import base_trainer, exp_factory, task_factory
from quintain.garden.nlp.attention import talking_heads_attention
from quintain.garden.nlp.layers import gated_feedforward
from quintain.nlp import experiments
from quintain.nlp.data import pretrain_dataloader
from quintain.nlp.tasks import masked_lm
from quintain.optimization.rules import sgd
from quintain.run import experiment_parser

EXAMPLE = pathlib.Path(__file__).parents[3] / "examples" / "08_gin_encoder"
FILES = [
    f"--config_file={EXAMPLE / 'small_pretrain.yaml'}",
    f"--gin_file={EXAMPLE / 'talking_gated_encoder.gin'}",
]


@pytest.fixture(autouse=True)
def _no_bindings_stay():
    yield
    gin_io.clear()


@pytest.fixture
def task():
    assert experiments.pretraining
    return task_factory.get_task(exp_factory.get_exp_config("bert/local").task)


def test_the_loss_is_the_weighted_mean_over_masked_words(task):
    logits = tf.constant([[[0.0, 0.0], [2.0, 0.0], [5.0, 0.0]]])
    labels = {
        "masked_lm_ids": tf.constant([[0, 1, 1]]),
        "masked_lm_weights": tf.constant([[1.0, 1.0, 0.0]]),
        "next_sentence_labels": tf.constant([[1]]),
    }

    words = task.build_losses(labels, {"mlm_logits": logits})
    both = task.build_losses(
        labels, {"mlm_logits": logits, "next_sentence": tf.constant([[0.0, 0.0]])}
    )

    expected = (np.log(2) + np.log(1 + np.exp(2.0))) / 2
    assert float(words) == pytest.approx(expected, rel=1e-6)
    assert float(both) == pytest.approx(expected + np.log(2), rel=1e-6)


class WordTask(masked_lm.MaskedLMTask):
    """Predicts words by one layer, from examples that count by their place."""

    def build_model(self, params=None):
        return keras.Sequential([keras.Input([3, 2]), keras.layers.Dense(4)])

    def build_inputs(self, params, input_context=None):
        weights = np.arange(48.0, dtype=np.float32).reshape(16, 3) % 7
        inputs = {
            "x": np.cos(np.arange(96.0, dtype=np.float32)).reshape(16, 3, 2),
            "masked_lm_ids": np.arange(48).reshape(16, 3) % 4,
            "masked_lm_weights": weights,
            "input_mask": np.ones([16, 3], np.int32),
        }
        size = params.global_batch_size // input_context.num_replicas_in_sync
        return tf.data.Dataset.from_tensor_slices(inputs).repeat().batch(size, drop_remainder=True)

    def split_inputs(self, inputs):
        return inputs["x"], inputs

    def build_losses(self, labels, model_outputs, metrics=None, aux_losses=None):
        return super().build_losses(labels, {"mlm_logits": model_outputs})

    def build_metrics(self, training=None):
        return []


@pytest.mark.slow
def test_shards_weigh_by_their_masked_words():
    weights, losses = [], []
    for is_elastic in (True, False):
        params = exp_factory.get_exp_config("bert/local")
        params.override({"runtime": {"elastic": is_elastic}})
        params.override({"task": {"train_data": {"global_batch_size": 16}}})
        keras.utils.set_random_seed(1)
        task = WordTask(params.task)
        model = task.build_model()
        trainer = base_trainer.Trainer(params, task, model, sgd.SGD(0.1), evaluate=False)
        logs = trainer.train(tf.constant(3))
        weights.append(model.get_weights()[0])
        losses.append(float(logs["training_loss"]))

    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-5)
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_task_without_a_config_builds_the_model_of_another(task):
    model = masked_lm.MaskedLMTask(None).build_model(task.task_config.model)

    assert [v.shape for v in model.variables] == [v.shape for v in task.build_model().variables]


def test_a_batch_without_masked_words_has_no_loss(task):
    labels = {
        "masked_lm_ids": tf.zeros([1, 2], tf.int32),
        "masked_lm_weights": tf.zeros([1, 2]),
    }

    assert float(task.build_losses(labels, {"mlm_logits": tf.ones([1, 2, 3])})) == 0.0


def test_metrics_weigh_words(task):
    metrics = task.build_metrics()
    labels = {
        "masked_lm_ids": tf.constant([[0, 1]]),
        "masked_lm_weights": tf.constant([[1.0, 0.0]]),
        "next_sentence_labels": tf.constant([[1]]),
    }
    outputs = {
        "mlm_logits": tf.constant([[[3.0, 0.0], [3.0, 0.0]]]),
        "next_sentence": tf.constant([[1.0, 0.0]]),
    }

    task.process_metrics(metrics, labels, outputs)

    results = {metric.name: float(metric.result()) for metric in metrics}
    assert results["masked_lm_accuracy"] == 1.0
    assert results["lm_example_loss"] == pytest.approx(np.log(1 + np.exp(-3.0)), rel=1e-5)
    assert results["next_sentence_accuracy"] == 0.0


@pytest.mark.parametrize("use_v2", [True, False])
def test_records_are_read_in_both_forms(tmp_path, use_v2):
    names = ["input_word_ids", "input_type_ids"] if use_v2 else ["input_ids", "segment_ids"]
    integers = {names[0]: [5, 6, 0], "input_mask": [1, 1, 0], names[1]: [0, 0, 0]}
    integers |= {"masked_lm_positions": [1], "masked_lm_ids": [6], "next_sentence_labels": [1]}
    features = {
        name: tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        for name, values in integers.items()
    }
    features["masked_lm_weights"] = tf.train.Feature(float_list=tf.train.FloatList(value=[1.0]))
    path = str(tmp_path / "a.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        example = tf.train.Example(features=tf.train.Features(feature=features))
        writer.write(example.SerializeToString())
    params = pretrain_dataloader.BertPretrainDataConfig(
        input_path=path,
        is_training=False,
        global_batch_size=1,
        seq_length=3,
        max_predictions_per_seq=1,
        use_v2_feature_names=use_v2,
    )

    (batch,) = list(pretrain_dataloader.BertPretrainDataLoader(params).load())

    assert batch["input_word_ids"].numpy().tolist() == [[5, 6, 0]]
    assert batch["input_word_ids"].dtype == tf.int32
    assert batch["masked_lm_weights"].numpy().tolist() == [[1.0]]
    assert batch["next_sentence_labels"].numpy().tolist() == [[1]]


def test_yaml_gives_sizes_and_gin_gives_internals():
    parsed = experiment_parser.parse(
        experiment_parser.ParseConfigOptions(
            experiment="bert/pretraining",
            config_file=[str(EXAMPLE / "small_pretrain.yaml")],
            gin_file=[str(EXAMPLE / "talking_gated_encoder.gin")],
        )
    )

    model = task_factory.get_task(parsed.params.task).build_model()

    assert len(model.encoder_network.hidden_layers) == 2
    for block in model.encoder_network.hidden_layers:
        assert isinstance(block.self_attention, talking_heads_attention.TalkingHeadsAttention)
        assert isinstance(block.feedforward_block, gated_feedforward.GatedFeedforward)


@pytest.mark.long("Pretraining learns in every run")
@pytest.mark.slow
def test_the_example_of_yaml_and_gin_trains(tmp_path, capsys):
    flags = ["--experiment=bert/pretraining", f"--model_dir={tmp_path}", "--quiet"]

    code = main.run(["train", *flags, *FILES])

    assert code == 0, capsys.readouterr().err
    assert (
        "GatedFeedforward.use_gate"
        in (tmp_path / "operative_config.train_and_eval.gin").read_text()
    )


def test_a_misspelt_gin_parameter_is_one_clear_error(tmp_path, capsys):
    flags = ["--experiment=bert/pretraining", f"--model_dir={tmp_path / 'run'}", *FILES]

    code = main.run(["train", *flags, "--gin_params=GatedFeedforward.use_gat = False"])

    assert code == 2
    assert "Did you mean 'use_gate'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_starting_from_another_vocabulary_is_an_error(tmp_path):
    config = exp_factory.get_exp_config("bert/local").task
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "vocabulary.model").write_bytes(b"old")
    (tmp_path / "new.txt").write_text("new")
    task = task_factory.get_task(
        config.replace(vocab_file=str(tmp_path / "new.txt"), init_checkpoint=str(tmp_path / "old"))
    )

    with pytest.raises(errors.ConfigError, match=r"Set task\.vocab_file='.*old/vocabulary\.model'"):
        task.initialize(None)


@pytest.mark.slow
def test_pretraining_learns(tmp_path):
    config = exp_factory.get_exp_config("bert/local")
    keras.utils.set_random_seed(0)
    task = task_factory.get_task(config.task)
    model = task.build_model()
    optimizer = task.create_optimizer(config.trainer.optimizer_config)
    optimizer.build(model.trainable_variables)
    batch = next(iter(task.build_inputs(config.task.train_data)))

    step = tf.function(lambda: task.train_step(batch, model, optimizer)["loss"])
    losses = [float(step()) for _ in range(10)]

    assert losses[-1] < losses[0]
    assert masked_lm.MaskedLMTask.__name__ == type(task).__name__


@pytest.mark.long("tests/core shows replicas with other tasks")
@pytest.mark.slow
def test_the_loss_does_not_depend_on_the_number_of_replicas(run_program):
    num_replicas, alone, together = run_program("masked_lm_loss.py")

    assert num_replicas == 2
    assert together == pytest.approx(alone, rel=1e-6)
