import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.nlp.modeling import layers, models, networks

NAMES = ("input_word_ids", "input_mask", "input_type_ids")
BATCH = [np.array([[5, 6, 7], [8, 9, 0]]), np.array([[1, 1, 1], [1, 1, 0]]), np.zeros([2, 3], int)]
POSITIONS = np.array([[1, 2], [0, 1]])


def build_encoder(**options):
    return networks.BertEncoder(
        20,
        hidden_size=8,
        num_layers=1,
        num_attention_heads=2,
        inner_dim=16,
        max_sequence_length=3,
        **options,
    )


MODELS = {
    "classifier": lambda network: models.BertClassifier(network, 3),
    "token_classifier": lambda network: models.BertTokenClassifier(network, 3),
    "span_labeler": lambda network: models.BertSpanLabeler(network),
    "pretrainer": lambda network: models.BertPretrainer(network, 2, 2),
    "pretrainer_v2": lambda network: models.BertPretrainerV2(
        network, classification_heads=[layers.ClassificationHead(8, 2, name="next_sentence")]
    ),
    "dual_encoder": lambda network: models.DualEncoder(network, 3),
    "electra": lambda network: models.ElectraPretrainer(network, network, 20, 2, 2),
}
SHAPES = {
    "classifier": (2, 3),
    "token_classifier": {"logits": (2, 3, 3)},
    "span_labeler": [(2, 3), (2, 3)],
    "pretrainer": {"masked_lm": (2, 2, 20), "classification": (2, 2)},
    "pretrainer_v2": {
        "sequence_output": (2, 3, 8),
        "pooled_output": (2, 8),
        "encoder_outputs": [(2, 3, 8)],
        "mlm_logits": (2, 2, 20),
        "next_sentence": (2, 2),
    },
    "dual_encoder": {"left_logits": (2, 2), "right_logits": (2, 2)},
    "electra": {
        "lm_outputs": (2, 2, 20),
        "sentence_outputs": (2, 2),
        "disc_logits": (2, 3),
        "disc_label": (2, 3),
    },
}
ITEMS = {
    "classifier": {"encoder"},
    "pretrainer": {"encoder", "masked_lm"},
    "pretrainer_v2": {"encoder", "masked_lm", "next_sentence.pooler_dense"},
}


def make_inputs(name):
    named = dict(zip(NAMES, BATCH, strict=True))
    if name == "dual_encoder":
        sides = ("left", "right")
        named = {
            key.replace("input", side): value for side in sides for key, value in named.items()
        }
    elif name in ("pretrainer", "pretrainer_v2", "electra"):
        named["masked_lm_positions"] = POSITIONS
    if name == "electra":
        named["masked_lm_ids"] = POSITIONS
    return {key: tf.constant(value, tf.int32) for key, value in named.items()}


@pytest.mark.long(
    "Further cases of a test of which some run every time", but=["classifier", "pretrainer_v2"]
)
@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_models_take_dictionaries_and_lists_and_are_described_by_their_configs(name):
    network = build_encoder(dict_outputs=True)
    model = MODELS[name](network)
    inputs = make_inputs(name)

    outputs = model(inputs)

    assert tf.nest.map_structure(lambda one: tuple(one.shape), outputs) == SHAPES[name]
    assert set(model.checkpoint_items) == ITEMS.get(name, {"encoder"})
    assert model.to_json()
    again = type(model).from_config(model.get_config())
    assert again.get_config() == model.get_config()
    listed = tf.nest.flatten(model.inputs)
    assert len(listed) == len(inputs)
    if name != "electra":
        again.set_weights(model.get_weights())
        by_list = tf.nest.flatten(again(list(inputs.values())))
        for ours, theirs in zip(by_list, tf.nest.flatten(outputs), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"return_all_encoder_outputs": True}])
def test_encoders_may_give_lists(options):
    network, plain = build_encoder(dict_outputs=True), build_encoder(**options)
    plain.set_weights(network.get_weights())
    inputs = make_inputs("pretrainer_v2")

    expected = models.BertPretrainerV2(network)(inputs)
    outputs = models.BertPretrainerV2(plain)(inputs)

    assert ("encoder_outputs" in outputs) == bool(options)
    np.testing.assert_allclose(outputs["sequence_output"], expected["sequence_output"], atol=1e-6)


def test_a_model_is_built_on_any_functional_encoder():
    ids = keras.Input((3,), dtype="int32", name="input_word_ids")
    mask = keras.Input((3,), dtype="int32", name="input_mask")
    sequence = keras.layers.Embedding(20, 4)(ids)
    pooled = keras.layers.Dense(6)(sequence[:, 0])
    network = keras.Model([ids, mask], {"sequence_output": sequence, "pooled_output": pooled})

    model = models.BertClassifier(network, 2, use_encoder_pooler=False)

    assert model(make_inputs("classifier")).shape == (2, 2)
    assert model.classifier.inner_dim == 4


def test_a_classifier_may_have_a_head_of_its_own():
    head = keras.layers.Dense(5)
    model = models.BertClassifier(build_encoder(), 3, cls_head=head)

    assert model(BATCH).shape == (2, 5)
    assert model.classifier is head
    assert set(model.checkpoint_items) == {"encoder"}


def test_classifiers_of_a_pretrainer_have_names_of_their_own():
    heads = [layers.ClassificationHead(8, 2, name="same") for _ in range(2)]
    with pytest.raises(ValueError, match="unique names"):
        models.BertPretrainerV2(build_encoder(), classification_heads=heads)


def test_the_losses_of_a_span_go_by_name():
    model = models.BertSpanLabeler(build_encoder())
    model.encoder.pooler_layer.trainable = False
    losses = {"start_positions": "mse", "end_positions": "mae"}
    model.compile("sgd", loss=losses, run_eagerly=True)

    labels = {"start_positions": np.zeros([2, 3]), "end_positions": np.zeros([2, 3])}
    history = model.fit(BATCH, labels, verbose=0)

    assert np.isfinite(history.history["loss"][0])


def test_a_dual_encoder_also_gives_encodings():
    model = models.DualEncoder(build_encoder(), 3, output="predictions")

    outputs = model(BATCH)

    lengths = tf.norm(outputs["pooled_output"], axis=1)
    np.testing.assert_allclose(lengths, [1, 1], atol=1e-5)


def test_words_are_replaced_where_they_were_masked_and_nowhere_else():
    network = build_encoder(dict_outputs=True)
    model = models.ElectraPretrainer(network, network, 20, 2, 2, disallow_correct=True)

    labels = model(make_inputs("electra"))["disc_label"].numpy()

    # The first position is never replaced, and the right word never put.
    np.testing.assert_array_equal(labels, [[0, 1, 1], [0, 1, 0]])
