import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.cli import main
from quintain.core import exp_factory, task_factory
from quintain.nlp import experiments
from quintain.nlp.configs import bert, electra, encoders
from quintain.nlp.data import pretrain_dataloader, sentence_prediction_dataloader
from quintain.nlp.tasks import electra_task, sentence_prediction

TINY = {
    "vocab_size": 40,
    "hidden_size": 8,
    "num_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 128,
}
LABELS = {
    "input_word_ids": tf.constant([[4, 5, 6, 7], [4, 8, 0, 0]]),
    "input_mask": tf.constant([[1, 1, 1, 1], [1, 1, 0, 0]]),
    "input_type_ids": tf.zeros([2, 4], tf.int32),
    "masked_lm_positions": tf.constant([[1, 2], [1, 0]]),
    "masked_lm_ids": tf.constant([[0, 2], [1, 0]]),
    "masked_lm_weights": tf.constant([[1.0, 1.0], [1.0, 0.0]]),
    "next_sentence_labels": tf.constant([[1], [0]]),
}
OUTPUTS = {
    "lm_outputs": tf.constant([[[1.0, 0, 2], [0, 0, 3]], [[0, 1.0, 0], [9, 0, 0]]]),
    "sentence_outputs": tf.constant([[0.0, 2.0], [0.0, 1.0]]),
    "disc_logits": tf.constant([[-1.0, 2.0, -3.0, 4.0], [0.0, -2.0, 9.0, 9.0]]),
    "disc_label": tf.constant([[0, 1, 1, 0], [0, 0, 1, 0]]),
}


def make_encoder(**sizes):
    return encoders.EncoderConfig(bert=encoders.BertEncoderConfig(**(TINY | sizes)))


def make_task(generator=None, discriminator=None, **fields):
    model = electra.ElectraPretrainerConfig(
        generator_encoder=make_encoder(**(generator or {})),
        discriminator_encoder=make_encoder(**(discriminator or {})),
        cls_heads=[bert.ClsHeadConfig(inner_dim=10)],
        **fields,
    )
    data = pretrain_dataloader.BertPretrainDataConfig(input_path="dummy")
    return electra_task.ElectraPretrainTask(
        electra_task.ElectraPretrainConfig(model=model, train_data=data)
    )


def cross_entropy(logits, label):
    logits = np.array(logits, float)
    return np.log(np.exp(logits).sum()) - logits[label]


WORD_LOSSES = [
    cross_entropy([1, 0, 2], 0), cross_entropy([0, 0, 3], 2), cross_entropy([0, 1, 0], 1)
]  # fmt: skip
SENTENCE_LOSSES = [cross_entropy([0, 2], 1), cross_entropy([0, 1], 0)]
FOUND_LOSSES = [np.log1p(np.exp(x)) for x in (-1.0, -2.0, 3.0, 4.0, 0.0, -2.0)]


def test_the_loss_is_that_of_the_words_and_fifty_times_that_of_the_replaced_ones():
    task = make_task()
    without = {name: value for name, value in LABELS.items() if name != "next_sentence_labels"}

    loss = task.build_losses(LABELS, OUTPUTS, task.build_metrics(), [tf.constant(7.0)])
    words_only = task.build_losses(without, OUTPUTS)

    expected = np.mean(WORD_LOSSES) + 50 * np.mean(FOUND_LOSSES)
    assert float(words_only) == pytest.approx(expected, rel=1e-6)
    assert float(loss) == pytest.approx(expected + np.mean(SENTENCE_LOSSES) + 7, rel=1e-6)


def test_metrics_count_words_that_are_no_padding():
    task = make_task(discriminator_loss_weight=2.0)
    metrics = task.build_metrics()

    task.process_metrics(metrics, LABELS, OUTPUTS)

    found = {metric.name: float(metric.result()) for metric in metrics}
    assert found == pytest.approx(
        {
            "masked_lm_accuracy": 2 / 3,
            "lm_example_loss": np.mean(WORD_LOSSES),
            "next_sentence_accuracy": 1 / 2,
            "next_sentence_loss": np.mean(SENTENCE_LOSSES),
            "discriminator_accuracy": 4 / 6,
            "discriminator_loss": np.mean(FOUND_LOSSES),
            "disc_precision": 1 / 2,
            "disc_recall": 1 / 2,
            "total_loss": np.mean(WORD_LOSSES)
            + np.mean(SENTENCE_LOSSES)
            + 2 * np.mean(FOUND_LOSSES),
        },
        rel=1e-6,
    )


def test_the_generator_shares_the_embeddings_of_the_discriminator():
    sizes = {"hidden_size": 4, "embedding_size": 8}
    tied = make_task(sizes).build_model()
    apart = make_task(sizes, tie_embeddings=False).build_model()

    generator, discriminator = tied.generator_network, tied.discriminator_network
    assert generator.get_embedding_layer() is discriminator.get_embedding_layer()
    assert len(apart.trainable_variables) == len(tied.trainable_variables) + 1
    assert tied.classification.trainable


def test_embeddings_that_fit_one_model_only_are_an_error():
    with pytest.raises(errors.ConfigError, match=r"got 40 embeddings of width 4, .* 40 of width 8"):
        make_task({"hidden_size": 4}).build_model()


def test_a_gated_activation_is_for_the_discriminator_alone():
    gated = {"hidden_activation": "swiglu"}

    assert make_task(discriminator=gated).build_model().trainable_variables
    with pytest.raises(errors.ConfigError, match=r"bert\.hidden_activation: got 'swiglu'"):
        make_task(generator=gated).build_model()


@pytest.mark.parametrize("name", ["glu", "swiglu"])
def test_heads_have_no_gated_activation(name):
    for build in (
        lambda: bert.PretrainerConfig(mlm_activation=name),
        lambda: bert.ClsHeadConfig(activation=name),
    ):
        with pytest.raises(errors.ConfigError, match=rf"activation: got '{name}'"):
            build().validate()


def test_training_draws_other_words_each_time_and_evaluation_the_same():
    few = {"vocab_size": 9}  # The generator is often right by chance.
    model = make_task(few, few).build_model()
    batch = {name: tf.tile(value, [64, 1]) for name, value in LABELS.items()}

    trained = [model(batch, training=True)["disc_label"].numpy() for _ in range(2)]
    evaluated = [model(batch, training=False)["disc_label"].numpy() for _ in range(2)]

    assert (trained[0] != trained[1]).any()
    np.testing.assert_array_equal(*evaluated)
    assert not trained[0][:, [0, 3]].any()


def test_the_temperature_says_how_often_unlikely_words_are_drawn():
    batch = {name: tf.tile(value, [64, 1]) for name, value in LABELS.items()}
    drawn = {}
    for temperature in (1e-4, 1e4):
        model = make_task(generator_temperature=temperature).build_model()
        model.masked_lm.bias.assign(tf.one_hot(2, 40, on_value=9.0))  # The right word of some.
        labels = model(batch, training=True)["disc_label"].numpy().reshape(64, 2, 4)
        drawn[temperature] = labels[:, 0, 1:3].mean(axis=0)

    np.testing.assert_array_equal(drawn[1e-4], [1, 0])
    assert (drawn[1e4] > 0.7).all()


def test_the_reference_s_experiment_has_its_settings():
    assert experiments.pretraining
    config = exp_factory.get_exp_config("electra/pretraining")

    task = task_factory.get_task(config.task)

    assert type(task) is electra_task.ElectraPretrainTask
    assert config.task.train_data.use_next_sentence_label
    assert config.task.model.discriminator_loss_weight == 50
    assert config.trainer.train_steps == 1_000_000


SIZES = {"hidden_size": 16, "num_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
LOCAL = [
    "train",
    "--experiment=electra/local",
    "--quiet",
    *(
        f"--set=task.model.{side}_encoder.bert.{name}={value}"
        for side in ("generator", "discriminator")
        for name, value in (SIZES | {"embedding_size": 16, "dropout_rate": 0.1}).items()
    ),
    *(
        f"--set=task.{data}_data.{name}={value}"
        for data in ("train", "validation")
        for name, value in {"seq_length": 16, "max_predictions_per_seq": 2}.items()
    ),
    "--set=trainer.train_steps=4",
    "--set=trainer.steps_per_loop=2",
    "--set=trainer.checkpoint_interval=2",
    "--set=trainer.validation_interval=4",
    "--set=trainer.validation_steps=2",
    "--set=runtime.seed=3",
]


def read_weights(directory):
    reader = tf.train.load_checkpoint(str(directory / "ckpt-4"))
    names = [name for name in reader.get_variable_to_shape_map() if "VARIABLE_VALUE" in name]
    return {name: reader.get_tensor(name) for name in names}


@pytest.mark.slow
def test_a_resumed_run_is_equal_to_the_bit_and_its_discriminator_is_fine_tuned(tmp_path, capsys):
    whole, parts = tmp_path / "whole ü", tmp_path / "parts"
    assert main.run([*LOCAL, f"--model-dir={whole}"]) == 0, capsys.readouterr().err
    shutil.copytree(whole, parts, ignore=shutil.ignore_patterns("ckpt-4*", "evaluations*"))
    assert main.run([*LOCAL, f"--model-dir={parts}"]) == 0, capsys.readouterr().err

    assert "can't be restored exactly" not in capsys.readouterr().err
    expected, found = read_weights(whole), read_weights(parts)
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    losses = [
        json.loads((directory / "evaluations.jsonl").read_text().splitlines()[-1])["metrics"]
        for directory in (whole, parts)
    ]
    assert losses[0]["discriminator_loss"] == losses[1]["discriminator_loss"]

    encoder = make_encoder(**(SIZES | {"embedding_size": 16, "vocab_size": 160}))
    config = sentence_prediction.SentencePredictionConfig(
        model=sentence_prediction.ModelConfig(num_classes=2, encoder=encoder),
        train_data=sentence_prediction_dataloader.SentencePredictionTextDataConfig(
            text_fields=["text"],
            tokenization="SentencePiece",
            vocab_file=str(whole / "vocabulary.model"),
        ),
        init_checkpoint=str(whole),
    )
    task = sentence_prediction.SentencePredictionTask(config)
    model = task.build_model()
    task.initialize(model)

    table = "encoder/_embedding_layer/embeddings/.ATTRIBUTES/VARIABLE_VALUE"
    np.testing.assert_array_equal(model.encoder.get_embedding_table(), expected[table])
