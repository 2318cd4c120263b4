"""Checkpoints and outputs were written by the reference's code: `make_reference_checkpoints.py`."""

import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.checkpoints import checkpoint_fit
from quintain.nlp.modeling import activations, layers, models, networks
from quintain.nlp.modeling.models import (
    bert_classifier,
    bert_pretrainer,
    seq2seq_transformer,
    transformer_stacks,
)
from quintain.nlp.modeling.ops import decoding
from quintain.nlp.tasks import masked_lm, pretrained, reference_checkpoint

DATA = pathlib.Path(__file__).parents[1] / "modeling" / "testdata" / "reference"
FIELD = "task.init_checkpoint"
TOLERANCE = {"rtol": 0, "atol": 1e-5}


def build_encoder(**changes):
    sizes = {
        "vocab_size": 24,
        "hidden_size": 16,
        "num_layers": 2,
        "num_attention_heads": 4,
        "inner_dim": 24,
        "max_sequence_length": 10,
        "type_vocab_size": 2,
    }
    if "attention_cls" in changes:
        return build_scaffold(hidden_cls=layers.TransformerScaffold, **changes)
    return networks.BertEncoderV2(**{**sizes, **changes})


def build_scaffold(hidden_cls, **changes):
    return networks.EncoderScaffold(
        16,
        embedding_cfg={
            "vocab_size": 24,
            "type_vocab_size": 2,
            "hidden_size": 16,
            "max_seq_length": 10,
            "initializer": "glorot_uniform",
            "dropout_rate": 0.1,
        },
        num_hidden_instances=2,
        hidden_cls=hidden_cls,
        hidden_cfg={
            "num_attention_heads": 4,
            "intermediate_size": 24,
            "intermediate_activation": activations.approximate_gelu,
            **changes,
        },
        dict_outputs=True,
    )


def build_pretrainer(heads=("next_sentence",), **changes):
    heads = [layers.ClassificationHead(16, 2, name=name) for name in heads]
    return bert_pretrainer.BertPretrainerV2(
        build_encoder(**changes),
        mlm_activation=activations.approximate_gelu,
        classification_heads=heads,
    )


def build_classifier(*, use_encoder_pooler=True, **changes):
    return bert_classifier.BertClassifier(
        build_encoder(**changes), num_classes=3, use_encoder_pooler=use_encoder_pooler
    )


def build_translation(*, use_bias=False, embed_start=True, num_attention_heads=4, **options):
    sizes = {"num_layers": 2, "num_attention_heads": num_attention_heads, "intermediate_size": 24}
    return seq2seq_transformer.Seq2SeqTransformer(
        24,
        16,
        decode_max_length=9,
        encoder_layer=transformer_stacks.TransformerEncoder(**sizes, use_bias=use_bias, **options),
        decoder_layer=transformer_stacks.TransformerDecoder(**sizes, use_bias=use_bias, **options),
        embed_start=embed_start,
    )


def load(model, name, **options):
    return reference_checkpoint.load_model(model, str(DATA / name), FIELD, **options)


def read_results(name):
    with np.load(DATA / f"{name}.npz") as file:
        return dict(file)


def make_batch(results):
    names = ("input_word_ids", "input_mask", "input_type_ids", "masked_lm_positions")
    return {name: tf.constant(results[name], tf.int32) for name in names if name in results}


@pytest.mark.parametrize(
    ("name", "norm_first"),
    [("pretrainer_v1", False), ("pretrainer_v2", False), ("pretrainer_norm_first", True)],
)
def test_a_pretrainer_computes_what_the_reference_computed(name, norm_first):
    model = build_pretrainer(norm_first=norm_first)
    report = load(model, name)
    assert report.new == {}
    assert report.unused == ()
    assert sorted(report.loaded) == sorted(set(report.loaded))
    assert len(report.loaded) == len(model.weights)
    results = read_results(name)
    outputs = model(make_batch(results))
    is_word = results["input_mask"].astype(bool)
    np.testing.assert_allclose(
        outputs["sequence_output"].numpy()[is_word],
        results["sequence_output"][is_word],
        **TOLERANCE,
    )
    for key in ("pooled_output", "mlm_logits", "next_sentence"):
        np.testing.assert_allclose(outputs[key], results[key], **TOLERANCE)


@pytest.mark.parametrize(
    ("name", "use_encoder_pooler"), [("classifier_v1", True), ("classifier_v2", False)]
)
def test_a_classifier_computes_what_the_reference_computed(name, use_encoder_pooler):
    model = build_classifier(use_encoder_pooler=use_encoder_pooler)
    report = load(model, name)
    assert report.new == {}
    assert report.unused == ()
    assert len(report.loaded) == len(model.weights)
    results = read_results(name)
    np.testing.assert_allclose(model(make_batch(results)), results["logits"], **TOLERANCE)


SIZES = {"vocab_size": 24, "hidden_size": 16, "num_layers": 2, "num_attention_heads": 4}
OTHERS = {
    "albert": lambda: networks.AlbertEncoder(
        **SIZES,
        embedding_width=6,
        max_sequence_length=10,
        type_vocab_size=2,
        intermediate_size=24,
        dict_outputs=True,
    ),
    "fnet": lambda: networks.FNet(
        **SIZES, max_sequence_length=8, type_vocab_size=2, inner_dim=24, attention_layers=[1]
    ),
    "fnet_linear": lambda: networks.FNet(
        **SIZES,
        max_sequence_length=8,
        type_vocab_size=2,
        inner_dim=24,
        mixing_mechanism="linear",
        norm_first=True,
    ),
    "bert_factorized": lambda: build_encoder(embedding_width=6, inner_activation="relu"),
    "pretrainer_v1_encoder": lambda: build_scaffold(layers.Transformer),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_encoders_compute_what_the_references_computed(name):
    encoder = OTHERS[name]()
    report = reference_checkpoint.load_parts({"encoder": encoder}, str(DATA / name), FIELD)
    assert report.unused == ()
    assert len(report.loaded) == len(encoder.weights)
    results = read_results(name.removesuffix("_encoder"))
    outputs = encoder(make_batch(results))
    is_word = results["input_mask"].astype(bool)
    np.testing.assert_allclose(
        outputs["sequence_output"].numpy()[is_word],
        results["sequence_output"][is_word],
        **TOLERANCE,
    )
    np.testing.assert_allclose(outputs["pooled_output"], results["pooled_output"], **TOLERANCE)


@pytest.mark.parametrize(
    ("name", "model_cls", "options"),
    [
        ("token_classifier", models.BertTokenClassifier, {"num_classes": 3}),
        ("span_labeler", models.BertSpanLabeler, {}),
        (
            "pretrainer_model_v1",
            models.BertPretrainer,
            {"num_classes": 2, "num_token_predictions": 2},
        ),
    ],
)
def test_models_with_other_heads_compute_what_the_references_computed(name, model_cls, options):
    output = "logits" if name == "span_labeler" else "predictions"
    model = model_cls(build_encoder(), **options, output=output)
    report = load(model, name)
    assert report.new == {}
    assert len(report.loaded) == len(model.weights)
    results = read_results(name)
    outputs = model(make_batch(results))
    if isinstance(outputs, dict) and "masked_lm" in outputs:
        for key, value in outputs.items():
            np.testing.assert_allclose(value, results[key], **TOLERANCE)
        return
    is_word = results["input_mask"].astype(bool)
    for ours, theirs in zip(tf.nest.flatten(outputs), results["outputs"], strict=True):
        np.testing.assert_allclose(ours.numpy()[is_word], theirs[is_word], **TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "use_bias"), [("translation", False), ("translation_bias", True)])
def test_a_translation_model_computes_and_finds_what_the_reference_did(name, use_bias):
    model = build_translation(use_bias=use_bias)
    report = load(model, name)
    assert report.new == {}
    assert report.unused == ()
    assert len(report.loaded) == len(model.weights)
    results = read_results(name)
    source = tf.constant(results["inputs"], tf.int32)
    logits = model({"inputs": source, "targets": tf.constant(results["targets"], tf.int32)})
    np.testing.assert_allclose(logits, results["logits"], **TOLERANCE)
    for beam_size in (1, 4):
        options = decoding.DecodingOptions(beam_size=beam_size, alpha=0.6)
        found = model.decode(source, options)
        ids = found["outputs"][:, 0].numpy()
        expected = results[f"ids_{beam_size}"]
        length = max(ids.shape[1], expected.shape[1])
        np.testing.assert_array_equal(
            *(np.pad(one, [(0, 0), (0, length - one.shape[1])]) for one in (ids, expected))
        )
        np.testing.assert_allclose(
            found["scores"][:, 0], results[f"scores_{beam_size}"], **TOLERANCE
        )


@pytest.mark.parametrize(
    "name", ["pretrainer_v1", "pretrainer_v1_encoder", "pretrainer_v2_encoder", "classifier_v1"]
)
def test_a_report_names_where_each_weight_came_from(name):
    model = build_pretrainer()
    report = load(model, name, required=["encoder"])
    sources = report.loaded["encoder.block_1.self_attention.query_key_value.kernel"]
    assert [source.rpartition("_attention_layer/")[2] for source in sources] == [
        "_query_dense/kernel",
        "_key_dense/kernel",
        "_value_dense/kernel",
    ]
    reader = tf.train.load_checkpoint(str(DATA / name))
    kernels = [reader.get_tensor(f"{one}/.ATTRIBUTES/VARIABLE_VALUE") for one in sources]
    np.testing.assert_array_equal(
        model.encoder_network.block_1.self_attention.query_key_value.kernel,
        np.concatenate([kernel.reshape(16, 16) for kernel in kernels], axis=1),
    )


def test_parts_that_a_checkpoint_lacks_stay_new_and_are_reported(caplog):
    model = build_pretrainer()
    bias = model.masked_lm.bias.numpy()
    report = load(model, "pretrainer_v2_encoder", required=["encoder"])
    assert list(report.new) == ["masked_lm", "next_sentence"]
    assert "masked_lm.bias" in report.new["masked_lm"]
    np.testing.assert_array_equal(model.masked_lm.bias, bias)
    assert "new weights: masked_lm (5), next_sentence (4)" in caplog.text
    assert report.as_dict()["new"]["masked_lm"] == list(report.new["masked_lm"])


def test_parts_are_required_unless_told_otherwise():
    with pytest.raises(errors.CheckpointError, match="masked_lm: in the model, not in the check"):
        load(build_pretrainer(), "pretrainer_v2_encoder")


def test_excluded_weights_stay_new_whatever_the_checkpoint_holds():
    model = build_translation()
    kernel = next(each for each in model.variables if each.path.endswith("output_layer_norm/gamma"))
    kernel.assign_add(tf.ones_like(kernel))
    before = kernel.numpy()

    report = load(model, "translation", exclude=["*output_layer_norm/*"])

    np.testing.assert_array_equal(kernel.numpy(), before)
    assert sum(map(len, report.new.values())) == 12
    assert all("norm" in name for names in report.new.values() for name in names)


def test_a_part_that_is_excluded_is_not_required():
    exclude = ["cls_predictions/*", "next_sentence/*"]
    report = load(build_pretrainer(), "pretrainer_v2_encoder", exclude=exclude)

    assert sorted(report.new) == ["masked_lm", "next_sentence"]


def test_weights_that_are_not_used_are_reported():
    report = load(build_classifier(), "pretrainer_v2", required=["encoder"])
    assert list(report.new) == ["sentence_prediction"]
    assert "masked_lm/dense/kernel" in report.unused
    assert "model/classification_heads/0/out_proj/bias" in report.unused
    assert report.num_states == 2


def test_a_classifier_of_another_name_is_not_taken():
    model = build_pretrainer(heads=["another"])
    report = load(model, "pretrainer_v2", required=["encoder", "masked_lm"])
    assert list(report.new) == ["another"]
    assert "next_sentence..pooler_dense/kernel" in report.unused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_attention_heads": 2}, r"_query_dense/kernel as \[16, 2, 8\].*\[16, 4, 4\]"),
        ({"vocab_size": 25}, r"embeddings as \[25, 16\], in the checkpoint \[24, 16\]"),
        ({"num_layers": 1}, r"_transformer_layers/1/.* in the checkpoint .*, not in the model"),
        ({"num_layers": 3}, r"block_2.* no encoder/_transformer_layers/2/.* in the checkpoint"),
        (
            {"attention_cls": layers.TalkingHeadsAttention},
            "TalkingHeadsAttention.* only those",
        ),
    ],
)
def test_an_encoder_that_does_not_fit_is_an_error_and_nothing_is_loaded(changes, message):
    encoder = build_encoder(**changes)
    before = [weight.numpy() for weight in encoder.weights]
    with pytest.raises(errors.CheckpointError, match=f"(?s)^task.init_checkpoint.*{message}"):
        pretrained.restore_parts({"encoder": encoder}, str(DATA / "pretrainer_v2"), FIELD)
    for weight, values in zip(encoder.weights, before, strict=True):
        np.testing.assert_array_equal(weight, values)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"embed_start": False}, "task.model.embed_start: got false"),
        ({"num_attention_heads": 8}, r"as \[16, 8, 2\], in the checkpoint \[16, 4, 4\]"),
        ({"activation": "swiglu"}, r"intermediate_dense/kernel.* \[16, 48\].*\[16, 24\]"),
        ({"use_bias": True}, "query_key_value.bias: no model/encoder_layer"),
    ],
)
def test_a_translation_model_that_differs_is_an_error(changes, message):
    with pytest.raises(errors.CheckpointError, match=f"(?s)^task.init_checkpoint.*{message}"):
        load(build_translation(**changes), "translation")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{norm_first: false, hidden_activation: gelu}", None),
        ("{norm_first: true}", "norm_first: got False, but .*params.yaml says True"),
        ("{hidden_activation: relu}", "hidden_activation: got 'gelu', but .* says 'relu'"),
    ],
)
def test_settings_that_no_weight_tells_are_compared_where_they_are_known(tmp_path, text, problem):
    for file in DATA.glob("pretrainer_v2_encoder.*"):
        shutil.copy(file, tmp_path)
    (tmp_path / "params.yaml").write_text(
        f"task: {{model: {{encoder: {{type: bert, bert: {text}}}}}}}"
    )
    encoder = build_encoder()
    path = str(tmp_path / "pretrainer_v2_encoder")
    if problem is None:
        report = reference_checkpoint.load_parts({"encoder": encoder}, path, FIELD)
        assert len(report.loaded) == len(encoder.weights)
        return
    with pytest.raises(errors.CheckpointError, match=rf"task\.model\.encoder\.bert\.{problem}"):
        reference_checkpoint.load_parts({"encoder": encoder}, path, FIELD)


def test_settings_of_a_translation_model_are_compared_where_they_are_known(tmp_path):
    for file in DATA.glob("translation.*"):
        shutil.copy(file, tmp_path)
    params = tmp_path / "params.yaml"
    params.write_text(
        "task: {model: {encoder: {activation: relu, norm_epsilon: 1.0e-06}, "
        "decoder: {activation: swish}}}"
    )
    model = build_translation()
    with pytest.raises(
        errors.CheckpointError, match=r"decoder\.activation: got 'relu', but .*swish"
    ):
        reference_checkpoint.load_model(model, str(tmp_path / "translation"), FIELD)
    params.write_text("task: {model: {decoder: {activation: relu, norm_first: true}}}")
    report = reference_checkpoint.load_model(model, str(tmp_path / "translation"), FIELD)
    assert len(report.loaded) == len(model.weights)


def test_biases_that_the_model_lacks_are_an_error():
    with pytest.raises(errors.CheckpointError, match="_query_dense/bias: in the checkpoint"):
        load(build_translation(), "translation_bias")


def test_an_encoder_and_a_dense_layer_start_a_classifier():
    model = build_classifier(use_encoder_pooler=False)
    parts = {
        "encoder": model.encoder,
        "next_sentence.pooler_dense": model.classifier.dense,
    }
    pretrained.restore_parts(parts, str(DATA / "pretrainer_v1"), FIELD)
    reader = tf.train.load_checkpoint(str(DATA / "pretrainer_v1"))
    np.testing.assert_array_equal(
        model.classifier.dense.kernel,
        reader.get_tensor("next_sentence..pooler_dense/kernel/.ATTRIBUTES/VARIABLE_VALUE"),
    )
    np.testing.assert_array_equal(
        model.encoder.get_embedding_table(),
        reader.get_tensor("masked_lm/embedding_table/.ATTRIBUTES/VARIABLE_VALUE"),
    )


def test_our_own_checkpoints_are_told_apart(tmp_path):
    model = build_pretrainer()
    path = tf.train.Checkpoint(**checkpoint_fit.model_items(model)).write(str(tmp_path / "ckpt"))
    assert not reference_checkpoint.is_reference(path, FIELD)
    assert reference_checkpoint.is_reference(str(DATA / "translation"), FIELD)


def test_a_checkpoint_of_the_first_release_of_bert_is_an_error_that_says_what_to_do(tmp_path):
    path = str(tmp_path / "bert_model.ckpt")
    tf.raw_ops.SaveV2(
        prefix=path,
        tensor_names=["bert/embeddings/word_embeddings"],
        shape_and_slices=[""],
        tensors=[tf.zeros([3, 2])],
    )
    with pytest.raises(errors.CheckpointError, match="tf2_encoder_checkpoint_converter"):
        reference_checkpoint.is_reference(path, FIELD)


def test_pretraining_goes_on_from_an_encoder():
    config = masked_lm.MaskedLMConfig(
        init_checkpoint=str(DATA / "pretrainer_v1_encoder"),
        model={
            "encoder": {
                "bert": {
                    "vocab_size": 24,
                    "hidden_size": 16,
                    "num_layers": 2,
                    "num_attention_heads": 4,
                    "intermediate_size": 24,
                    "max_position_embeddings": 10,
                }
            }
        },
    )
    task = masked_lm.MaskedLMTask(config)
    model = task.build_model()
    task.initialize(model)
    results = read_results("pretrainer_v1")
    outputs = model(make_batch(results))
    np.testing.assert_allclose(outputs["pooled_output"], results["pooled_output"], **TOLERANCE)
