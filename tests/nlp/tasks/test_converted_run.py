import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from quintain.cli import main
from quintain.nlp.data import tokenizers
from quintain.nlp.tasks import sentence_prediction, translation
from quintain.serving import trained_run

DATA = pathlib.Path(__file__).parents[1] / "modeling" / "testdata" / "reference"
ENCODER = {
    "vocab_size": 24,
    "hidden_size": 16,
    "num_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 10,
}
STACK = {"num_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}


@pytest.fixture
def convert(capfd, tmp_path):
    """Returns a function that runs the command: (exit code, stdout, stderr)."""

    def run(name, experiment, settings, *arguments):
        pairs = [f"--set={path}={value}" for path, value in settings.items()]
        code = main.run(
            [
                "checkpoint",
                "convert",
                f"--from={DATA / name}",
                f"--experiment={experiment}",
                f"--model_dir={tmp_path / 'run'}",
                *pairs,
                *arguments,
            ]
        )
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return run


def make_classifier_settings(**changes):
    sizes = {f"task.model.encoder.bert.{name}": value for name, value in ENCODER.items()}
    head = {"task.model.num_classes": 3, "task.model.use_encoder_pooler": "true"}
    return {**sizes, **head, **changes}


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("vocabulary") / "v.model")
    letters = ["abcdefghij klmnopqr", "rqponm lkji hgf edcba", "abcd abcd efgh", "hgf dcba"] * 20
    tokenizers.train_sentencepiece(letters, path, vocab_size=24)
    return path


def make_translation_settings(vocabulary, **changes):
    sizes = {
        f"task.model.{side}.{name}": value
        for side in ("encoder", "decoder")
        for name, value in STACK.items()
    }
    return {
        **sizes,
        "task.model.embedding_width": 16,
        "task.model.embed_start": "true",
        "task.model.decode_max_length": 9,
        "task.sentencepiece_model_path": vocabulary,
        **changes,
    }


def test_a_classifier_becomes_a_run_that_computes_the_same(convert, tmp_path):
    code, stdout, stderr = convert(
        "classifier_v1", "bert/sentence_prediction", make_classifier_settings(), "--json"
    )
    assert code == 0, stderr
    report = json.loads(stdout)
    assert report["written"] == str(tmp_path / "run" / "ckpt-0")
    assert report["new"] == {}
    run = trained_run.load(str(tmp_path / "run"), [sentence_prediction.SentencePredictionConfig])
    with np.load(DATA / "classifier_v1.npz") as results:
        names = ("input_word_ids", "input_mask", "input_type_ids")
        logits = run.model({name: tf.constant(results[name], tf.int32) for name in names})
        np.testing.assert_allclose(logits, results["logits"], rtol=0, atol=1e-5)


@pytest.mark.slow
def test_a_translation_model_becomes_a_run_that_finds_the_same(convert, tmp_path, vocabulary):
    code, stdout, stderr = convert(
        "translation", "translation/local", make_translation_settings(vocabulary)
    )
    assert code == 0, stderr
    assert (
        "  decoder.block_1.cross_attention.key_value.kernel <- "
        "model/decoder_layer/decoder_layers/1/encdec_attention/_key_dense/kernel, "
        "model/decoder_layer/decoder_layers/1/encdec_attention/_value_dense/kernel\n"
    ) in stdout
    assert stdout.endswith(f"Wrote {tmp_path / 'run' / 'ckpt-0'}.\n")
    run = trained_run.load(str(tmp_path / "run"), [translation.TranslationConfig])
    with np.load(DATA / "translation.npz") as results:
        batch = {name: tf.constant(results[name], tf.int32) for name in ("inputs", "targets")}
        np.testing.assert_allclose(run.model(batch), results["logits"], rtol=0, atol=1e-5)


def test_a_new_run_starts_from_the_reference(tmp_path, vocabulary):
    stack = translation.EncDecoder(**STACK)
    model_config = translation.ModelConfig(
        encoder=stack, decoder=stack, embedding_width=16, embed_start=True
    )
    config = translation.TranslationConfig(
        model=model_config,
        init_checkpoint=str(DATA / "translation"),
        sentencepiece_model_path=vocabulary,
    )
    task = translation.TranslationTask(config, logging_dir=str(tmp_path))
    model = task.build_model()
    task.initialize(model)
    with np.load(DATA / "translation.npz") as results:
        batch = {name: tf.constant(results[name], tf.int32) for name in ("inputs", "targets")}
        np.testing.assert_allclose(model(batch), results["logits"], rtol=0, atol=1e-5)


def test_a_head_may_be_new_if_that_is_said(convert, tmp_path):
    settings = make_classifier_settings()
    code, _, stderr = convert("pretrainer_v2_encoder", "bert/sentence_prediction", settings)
    assert code == 2
    assert "sentence_prediction: in the model, not in the checkpoint" in stderr
    assert not (tmp_path / "run").exists()

    arguments = ("pretrainer_v2_encoder", "bert/sentence_prediction", settings, "--allow_new")
    code, stdout, stderr = convert(*arguments)
    assert code == 0, stderr
    assert "  new: sentence_prediction (sentence_prediction.out_proj.kernel, " in stdout

    code, _, stderr = convert(*arguments)
    assert code == 2
    assert "expected a new directory" in stderr


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task.sentencepiece_model_path": "''"}, "task.sentencepiece_model_path: missing"),
        ({"task.model.embed_start": "false"}, "Set it to true"),
        ({"task.model.encoder.num_layers": 3}, "no model/encoder_layer/encoder_layers/2/"),
        ({"trainer.optimizer_config.ema": "{}"}, "trainer.optimizer_config.ema: got an average"),
    ],
)
def test_what_does_not_fit_is_an_error_that_leaves_nothing(
    convert, tmp_path, vocabulary, changes, message
):
    settings = make_translation_settings(vocabulary, **changes)
    code, _, stderr = convert("translation", "translation/local", settings)
    assert code == 2
    assert message in stderr
    assert not (tmp_path / "run").exists()


def test_a_checkpoint_of_ours_needs_no_conversion(convert, tmp_path):
    path = tf.train.Checkpoint(weight=tf.Variable(1.0)).write(str(tmp_path / "ckpt"))
    code, _, stderr = convert(path, "bert/sentence_prediction", make_classifier_settings())
    assert code == 2
    assert "use task.init_checkpoint" in stderr
