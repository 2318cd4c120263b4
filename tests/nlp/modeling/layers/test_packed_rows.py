import numpy as np
import pytest
import tensorflow as tf

from quintain.distribute import replica_steps
from quintain.modeling import token_losses
from quintain.nlp.modeling.layers import packed_rows
from quintain.nlp.modeling.models import seq2seq_transformer, transformer_stacks
from quintain.settings import config_definitions as cfg

IS_TOKEN = tf.constant([[True, True, False], [False, False, False], [True, False, True]])


def test_tokens_are_packed_in_order_and_spread_to_their_places():
    rows = packed_rows.PackedRows(IS_TOKEN)
    x = tf.reshape(tf.range(18, dtype=tf.float32), [3, 3, 2])

    packed = rows.pack(x)
    spread = rows.spread(packed).numpy()

    np.testing.assert_array_equal(packed, x.numpy()[IS_TOKEN.numpy()])
    np.testing.assert_array_equal(spread[IS_TOKEN.numpy()], x.numpy()[IS_TOKEN.numpy()])
    np.testing.assert_array_equal(rows.positions, [0, 1, 0, 2])
    np.testing.assert_array_equal(
        rows.pack(tf.constant([[1, 2, 3], [4, 5, 6], [7, 8, 9]])), [1, 2, 7, 9]
    )


def test_gradients_reach_tokens_alone():
    rows = packed_rows.PackedRows(IS_TOKEN)
    x = tf.random.normal([3, 3, 2])
    weights = tf.random.normal([4, 2])
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(rows.pack(x) * weights)
    gradient = tape.gradient(loss, x).numpy()
    np.testing.assert_array_equal(gradient[IS_TOKEN.numpy()], weights)
    assert not gradient[~IS_TOKEN.numpy()].any()

    upstream = tf.random.normal([3, 3, 2])
    with tf.GradientTape() as tape:
        tape.watch(weights)
        loss = tf.reduce_sum(rows.spread(weights) * upstream)
    np.testing.assert_array_equal(tape.gradient(loss, weights), upstream.numpy()[IS_TOKEN.numpy()])


@pytest.mark.parametrize("shape", [[2, 3], [0, 3]])
def test_batches_without_tokens_work(shape):
    rows = packed_rows.PackedRows(tf.zeros(shape, tf.bool))

    assert rows.spread(rows.pack(tf.ones([*shape, 4]))).shape == [*shape, 4]


@pytest.fixture(scope="module")
def model():
    stack = {"num_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "use_bias": True}
    return seq2seq_transformer.Seq2SeqTransformer(
        20,
        embedding_width=16,
        encoder_layer=transformer_stacks.TransformerEncoder(**stack),
        decoder_layer=transformer_stacks.TransformerDecoder(**stack),
    )


SOURCE = tf.constant([[5, 6, 1, 0, 0], [7, 8, 9, 4, 1], [3, 1, 0, 0, 0]])
TARGET = tf.constant([[4, 1, 0, 0], [3, 9, 8, 1], [11, 12, 1, 0]])


def compute_loss_and_gradients(model):
    with tf.GradientTape() as tape:
        logits = model({"inputs": SOURCE, "targets": TARGET}, training=True)
        losses, weights = token_losses.padded_cross_entropy(logits, TARGET, smoothing=0.1)
        loss = tf.reduce_sum(losses) / tf.reduce_sum(weights)
    return loss, tape.gradient(loss, model.trainable_variables)


@pytest.mark.slow
def test_a_model_that_skips_padding_has_the_same_loss_and_gradients(model):
    model.skip_padding = False
    loss, gradients = compute_loss_and_gradients(model)
    model.skip_padding = True
    packed_loss, packed_gradients = compute_loss_and_gradients(model)

    np.testing.assert_allclose(packed_loss, loss, rtol=1e-6)
    for variable, ours, theirs in zip(
        model.trainable_variables, packed_gradients, gradients, strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-6, err_msg=variable.path)


@pytest.mark.slow
def test_only_training_skips_padding_and_not_where_xla_compiles_it(model, monkeypatch):
    made = []
    original = packed_rows.PackedRows
    monkeypatch.setattr(packed_rows, "PackedRows", lambda ids: made.append(ids) or original(ids))
    model.skip_padding = True
    inputs = {"inputs": SOURCE, "targets": TARGET}

    model(inputs)
    model({"inputs": SOURCE}, training=True)
    assert not made
    model(inputs, training=True)
    assert len(made) == 2
    runtime = cfg.RuntimeConfig(enable_xla=True)
    replica_steps.compile_step(lambda: model(inputs, training=True), runtime)()
    assert len(made) == 2
