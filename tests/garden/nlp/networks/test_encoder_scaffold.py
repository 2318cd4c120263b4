import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.nlp.modeling import layers, networks
from quintain.nlp.modeling.models import bert_pretrainer


@pytest.fixture(autouse=True)
def _weights_are_the_same_each_time():
    keras.utils.set_random_seed(1)


def build_encoder(num_layers=2, **arguments):
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "inner_dim": 16, "max_sequence_length": 10}
    return networks.BertEncoderV2(20, num_layers=num_layers, **{**sizes, **arguments})


def build_scaffold(dropout_rate=0.1, **parts):
    return networks.EncoderScaffold(
        8,
        embedding_cfg={
            "vocab_size": 20,
            "type_vocab_size": 2,
            "hidden_size": 8,
            "max_seq_length": 10,
            "initializer": keras.initializers.TruncatedNormal(stddev=0.02),
            "dropout_rate": dropout_rate,
        },
        num_hidden_instances=2,
        hidden_cls=layers.TransformerScaffold,
        hidden_cfg={
            "num_attention_heads": 2,
            "intermediate_size": 16,
            "intermediate_activation": "relu",
            "dropout_rate": dropout_rate,
            **parts,
        },
        dict_outputs=True,
    )


OTHER_PARTS = {
    "attention_cls": layers.TalkingHeadsAttention,
    "feedforward_cls": layers.GatedFeedforward,
}


def make_inputs(ids, mask):
    return {
        "input_word_ids": tf.constant(ids),
        "input_mask": tf.constant(mask),
        "input_type_ids": tf.zeros_like(tf.constant(ids)),
    }


@pytest.mark.parametrize("norm_first", [True, False])
def test_padding_does_not_change_the_rest(norm_first):
    encoder = build_encoder(norm_first=norm_first)

    short = encoder(make_inputs([[5, 6, 7]], [[1, 1, 1]]))
    long = encoder(make_inputs([[5, 6, 7, 9, 0]], [[1, 1, 1, 0, 0]]))

    np.testing.assert_allclose(
        long["sequence_output"].numpy()[:, :3], short["sequence_output"].numpy(), atol=1e-5
    )
    np.testing.assert_allclose(
        long["pooled_output"].numpy(), short["pooled_output"].numpy(), atol=1e-5
    )
    assert len(short["encoder_outputs"]) == 2


def test_parts_can_be_replaced():
    encoder = build_scaffold(**OTHER_PARTS)

    outputs = encoder(make_inputs([[5, 6]], [[1, 1]]), training=True)

    assert outputs["sequence_output"].shape == (1, 2, 8)
    block = encoder.hidden_layers[0]
    assert isinstance(block.self_attention, layers.TalkingHeadsAttention)
    assert isinstance(block.feedforward_block, layers.GatedFeedforward)


def test_a_sequence_that_is_too_long_is_an_error():
    with pytest.raises(errors.ConfigError, match=r"max_position_embeddings .*: got 10"):
        build_encoder()(make_inputs([[1] * 11], [[1] * 11]))


def test_embeddings_are_added_and_normalised_in_float32_under_bfloat16():
    encoder = build_encoder(0, dtype="mixed_bfloat16")
    rows = np.float32(1) + np.arange(8, dtype="float32") * np.float32(2**-12)
    encoder.get_embedding_table().assign(np.tile(rows, (20, 1)))
    for layer in (encoder._position_embedding_layer, encoder._type_embedding_layer):
        layer.embeddings.assign(tf.zeros_like(layer.embeddings))

    output = encoder(make_inputs([[5, 6]], [[1, 1]]))["sequence_output"]

    # In bfloat16 all of these numbers are 1, and nothing would be left.
    expected = (rows - rows.mean()) / rows.std()
    np.testing.assert_allclose(tf.cast(output, tf.float32)[0, 0], expected, rtol=1e-2)


@pytest.mark.slow
def test_one_matrix_learns_as_embeddings_and_as_logits():
    encoder = build_encoder()
    model = bert_pretrainer.BertPretrainerV2(encoder)
    inputs = make_inputs([[5, 6, 7]], [[1, 1, 1]]) | {"masked_lm_positions": tf.constant([[1]])}

    def compute_loss():
        logits = model(inputs)["mlm_logits"]
        return -tf.reduce_sum(tf.nn.log_softmax(logits)[..., 9])

    table = encoder.get_embedding_table()
    with tf.GradientTape() as tape:
        loss = compute_loss()
    gradient = tf.convert_to_tensor(tape.gradient(loss, table.value)).numpy()

    step = 1e-2
    for row in (5, 9, 12):
        start = table.numpy()
        sums = []
        for sign in (1, -1):
            moved = start.copy()
            moved[row, 3] += sign * step
            table.assign(moved)
            sums.append(float(compute_loss()))
        table.assign(start)
        assert gradient[row, 3] == pytest.approx((sums[0] - sums[1]) / (2 * step), abs=2e-3)


def compute_gradients(encoder, inputs, weights):
    with tf.GradientTape() as tape:
        outputs = encoder(inputs, training=True)
        words = tf.cast(inputs["input_mask"], tf.float32)[..., tf.newaxis]
        loss = tf.reduce_sum(outputs["sequence_output"] * weights * words)
        loss += tf.reduce_sum(outputs["pooled_output"])
    return loss, tape.gradient(loss, encoder.trainable_variables)


def build_without_dropout(name):
    if name == "bert":
        return build_encoder(output_dropout=0.0, attention_dropout=0.0)
    return build_scaffold(dropout_rate=0.0, feedforward_cls=layers.GatedFeedforward)


@pytest.mark.long("Further cases of a test of which some run every time", but=["scaffold"])
@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "scaffold"])
def test_an_encoder_that_skips_padding_has_the_same_loss_and_gradients(name):
    encoder = build_without_dropout(name)
    inputs = make_inputs([[5, 6, 7, 0, 0], [8, 9, 0, 0, 0]], [[1, 1, 1, 0, 0], [1, 1, 0, 0, 0]])
    weights = tf.random.normal([2, 5, encoder.hidden_size])
    loss, gradients = compute_gradients(encoder, inputs, weights)

    encoder.skip_padding = True
    packed_loss, packed_gradients = compute_gradients(encoder, inputs, weights)

    np.testing.assert_allclose(packed_loss, loss, rtol=1e-5)
    for variable, ours, theirs in zip(
        encoder.trainable_variables, packed_gradients, gradients, strict=True
    ):
        ours, theirs = tf.convert_to_tensor(ours), tf.convert_to_tensor(theirs)
        largest = float(tf.reduce_max(tf.abs(theirs)))
        np.testing.assert_allclose(ours, theirs, atol=1e-5 * largest, err_msg=variable.path)


class _OwnPart(keras.layers.Layer):
    """A part of the user's own, which needs whole sequences."""

    def __init__(self, **kwargs):
        super().__init__()

    def call(self, inputs, training=False):
        return tf.reverse(inputs, [1])


def test_parts_of_ones_own_see_whole_sequences_with_their_padding():
    encoder = build_scaffold(feedforward_cls=_OwnPart)
    encoder.skip_padding = True
    inputs = make_inputs([[5, 6, 0]], [[1, 1, 0]])

    assert not encoder.hidden_layers[0].takes_rows
    assert encoder(inputs, training=True)["sequence_output"].shape == [1, 3, encoder.hidden_size]
