import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.nlp.modeling import layers, networks

SIZES = {"vocab_size": 20, "hidden_size": 8, "num_attention_heads": 2, "num_layers": 2}
NAMES = ("input_word_ids", "input_mask", "input_type_ids")
BATCH = [np.array([[5, 6, 7], [8, 9, 0]]), np.array([[1, 1, 1], [1, 1, 0]]), np.zeros([2, 3], int)]


def build(encoder_cls=networks.BertEncoder, **options):
    return encoder_cls(**SIZES, **{"inner_dim": 16, "max_sequence_length": 4, **options})


def get_shapes(outputs):
    return tf.nest.map_structure(lambda one: tuple(one.shape), outputs)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [(2, 3, 8), (2, 8)]),
        ({"return_all_encoder_outputs": True}, [[(2, 3, 8), (2, 3, 8)], (2, 8)]),
        (
            {"return_attention_scores": True},
            [(2, 3, 8), (2, 8), [(2, 2, 3, 3), (2, 2, 3, 3)]],
        ),
        (
            {"dict_outputs": True, "return_word_embeddings": True, "output_range": 1},
            {
                "sequence_output": (2, 1, 8),
                "pooled_output": (2, 8),
                "encoder_outputs": [(2, 3, 8), (2, 1, 8)],
                "word_embeddings": (2, 3, 8),
            },
        ),
    ],
)
def test_outputs_are_a_list_or_a_dictionary(options, expected):
    assert get_shapes(build(**options)(BATCH)) == expected


def test_options_change_what_is_given_and_not_what_is_computed():
    encoder = build(networks.BertEncoderV2)
    config = encoder.get_config()
    expected = encoder(dict(zip(NAMES, BATCH, strict=True)))
    for options in ({"output_range": 1}, {"return_attention_scores": True}):
        other = networks.BertEncoderV2.from_config({**config, **options})
        if "output_range" in options:
            other.set_weights(encoder.get_weights())
        else:
            _copy_general(encoder, other)
        outputs = other(dict(zip(NAMES, BATCH, strict=True)))
        np.testing.assert_allclose(outputs["pooled_output"], expected["pooled_output"], atol=1e-5)


def _copy_general(fused, general):
    """Copies weights to an encoder whose attention keeps queries, keys and values apart."""
    for mine, other in zip(fused.transformer_layers, general.transformer_layers, strict=True):
        joined = mine.self_attention.query_key_value
        theirs = other.self_attention
        parts = (theirs._query_dense, theirs._key_dense, theirs._value_dense)
        for number, part in enumerate(parts):
            for name in ("kernel", "bias"):
                value = np.split(getattr(joined, name).numpy(), 3, axis=-1)[number]
                getattr(part, name).assign(value.reshape(getattr(part, name).shape))
        output = mine.self_attention.output_projection
        for name in ("kernel", "bias"):
            target = getattr(theirs._output_dense, name)
            target.assign(getattr(output, name).numpy().reshape(target.shape))
        for name in ("self_attention_norm", "feed_forward", "feed_forward_norm"):
            getattr(other, name).set_weights(getattr(mine, name).get_weights())
    for name in ("_embedding_layer", "_position_embedding_layer", "_type_embedding_layer"):
        getattr(general, name).set_weights(getattr(fused, name).get_weights())
    for name in ("_embedding_norm_layer", "_pooler_layer"):
        getattr(general, name).set_weights(getattr(fused, name).get_weights())


@pytest.mark.parametrize(
    "encoder_cls",
    [networks.BertEncoder, networks.BertEncoderV2, networks.AlbertEncoder, networks.FNet],
)
def test_configs_have_the_arguments_and_make_the_same_encoder(encoder_cls):
    options = {"max_sequence_length": 4, "type_vocab_size": 3, "embedding_width": 6}
    encoder = encoder_cls(**SIZES, **options)

    config = encoder.get_config()
    again = encoder_cls.from_config(config)

    assert config.items() >= {**SIZES, **options}.items()
    assert again.get_config() == config
    assert [one.shape for one in again.weights] == [one.shape for one in encoder.weights]
    assert encoder.get_embedding_table().shape == (20, 6)
    assert encoder.to_json()


def test_an_encoder_is_a_part_of_functional_models_that_are_saved_and_loaded(tmp_path):
    encoder = build(networks.BertEncoderV2)
    inputs = {name: keras.Input((3,), dtype=tf.int32, name=name) for name in NAMES}
    outputs = encoder(inputs)
    assert outputs["sequence_output"].shape == (None, 3, 8)
    assert outputs["pooled_output"].shape == (None, 8)
    model = keras.Model(inputs, outputs["pooled_output"])
    batch = {name: tf.constant(value) for name, value in zip(NAMES, BATCH, strict=True)}

    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")

    np.testing.assert_allclose(loaded(batch), model(batch), atol=1e-6)


def test_inputs_are_those_of_keras():
    assert [one.name for one in build().inputs] == list(NAMES)
    inputs = build(networks.BertEncoderV2, with_dense_inputs=True).inputs
    assert list(inputs) == [*NAMES, "dense_inputs", "dense_mask", "dense_type_ids"]
    assert inputs["dense_inputs"].shape == (None, None, 8)


def test_vectors_may_come_after_the_words_or_in_place_of_them():
    encoder = build(networks.BertEncoderV2, with_dense_inputs=True, max_sequence_length=5)
    ids, mask, types = map(tf.constant, BATCH)
    table = tf.convert_to_tensor(encoder.get_embedding_table())
    whole = encoder(dict(zip(NAMES, (ids, mask, types), strict=True)))

    parted = encoder(
        {
            "input_word_ids": ids[:, :2],
            "input_mask": mask[:, :2],
            "input_type_ids": types[:, :2],
            "dense_inputs": tf.gather(table, ids[:, 2:]),
            "dense_mask": mask[:, 2:],
            "dense_type_ids": types[:, 2:],
        }
    )
    replaced = encoder(
        {
            "input_word_embeddings": tf.gather(table, ids),
            "input_mask": mask,
            "input_type_ids": types,
        }
    )

    for outputs in (parted, replaced):
        np.testing.assert_allclose(outputs["sequence_output"], whole["sequence_output"], atol=1e-5)


def test_an_embedding_layer_may_be_shared():
    shared = layers.OnDeviceEmbedding(vocab_size=20, embedding_width=8)
    encoders = [build(embedding_layer=shared) for _ in range(2)]

    assert encoders[0].get_embedding_table() is encoders[1].get_embedding_table()
    assert encoders[0].get_embedding_layer() is shared
    with pytest.raises(ValueError, match="got 2 tensors"):
        encoders[0](BATCH[:2])


def test_outputs_are_float32_but_for_the_pooled_one_under_mixed_precision():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        sequence, pooled = build()(BATCH)
    finally:
        keras.config.set_dtype_policy("float32")

    assert (sequence.dtype, pooled.dtype) == (tf.float32, tf.bfloat16)


def test_fnet_takes_one_length_only():
    fnet = build(networks.FNet)
    with pytest.raises(ValueError, match="max_sequence_length: got 4, but the input has 3"):
        fnet(dict(zip(NAMES, BATCH, strict=True)))
