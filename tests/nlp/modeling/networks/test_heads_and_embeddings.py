import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.nlp.modeling import layers, networks

WORDS = np.array([[7, 3, 7, 4, 0]])
MASK = np.array([[1, 1, 1, 1, 0]])


def test_a_classification_gives_logits_or_their_log_softmax():
    heads = [networks.Classification(4, 3, output=output) for output in ("logits", "predictions")]
    heads[1].set_weights(heads[0].get_weights())
    vectors = np.random.default_rng(0).normal(size=(2, 4)).astype("float32")
    logits, predictions = (head(vectors) for head in heads)

    np.testing.assert_allclose(predictions, tf.nn.log_softmax(logits), atol=1e-6)
    inner = keras.Model(heads[1].inputs, heads[1].logits)
    np.testing.assert_allclose(inner([vectors]), logits, atol=1e-6)
    assert networks.Classification.from_config(heads[1].get_config()).to_json()
    with pytest.raises(ValueError, match='Unknown `output` value "bad"'):
        networks.Classification(4, 3, output="bad")


def test_a_span_has_a_begin_and_an_end():
    network = networks.SpanLabeling(4, output="predictions")
    sequence = np.random.default_rng(0).normal(size=(2, 5, 4)).astype("float32")

    begins, ends = network(sequence)

    assert begins.shape == ends.shape == (2, 5)
    np.testing.assert_allclose(tf.reduce_sum(tf.exp(begins), 1), [1, 1], atol=1e-5)
    assert networks.SpanLabeling.from_config(network.get_config()).to_json()


def test_ends_are_looked_for_from_the_given_begin_in_training_and_from_the_likeliest_else():
    keras.utils.set_random_seed(1)
    network = networks.XLNetSpanLabeling(4, start_n_top=2, end_n_top=3)
    sequence = tf.random.stateless_normal([2, 5, 4], [1, 2])
    mask = tf.constant([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]])
    found = network(sequence, class_index=tf.constant([0, 0]), paragraph_mask=mask)
    starts = found["start_top_index"][:, 0]

    given = network(sequence, tf.constant([0, 0]), mask, start_positions=starts, training=True)

    assert found["end_top_index"].shape == (2, 6)
    np.testing.assert_allclose(given["end_logits"], found["end_logits"][:, 0], rtol=1e-5)
    np.testing.assert_allclose(given["class_logits"], found["class_logits"], rtol=1e-5)
    assert float(found["start_logits"][0, 4]) < -1e29
    with pytest.raises(ValueError, match="must be greater than 1"):
        networks.XLNetSpanLabeling(4, start_n_top=1)


def build_embedding(**options):
    return networks.PackedSequenceEmbedding(9, 2, 4, 6, 8, "glorot_uniform", 0.1, **options)


def test_packed_sequences_count_positions_anew_and_do_not_see_each_other():
    packed = build_embedding(pack_multiple_sequences=True)
    placed = build_embedding(use_position_id=True)
    placed.set_weights(packed.get_weights())

    embedded, mask = packed([WORDS, MASK, 0 * MASK])
    by_position, _ = placed([WORDS, MASK, 0 * MASK, np.array([[0, 1, 0, 1, 2]])])

    np.testing.assert_allclose(embedded, by_position, atol=1e-6)
    expected = np.kron(np.eye(2), np.ones([2, 2]))
    np.testing.assert_array_equal(mask[0, :4, :4], expected)
    np.testing.assert_array_equal(mask[0, :, 4], np.zeros(5))
    assert [one.name for one in placed.inputs][3:] == ["position_ids"]
    config = packed.get_config()
    assert networks.PackedSequenceEmbedding.from_config(config).get_config() == config


def test_an_encoder_runs_on_an_embedding_network():
    embedding = build_embedding(pack_multiple_sequences=True)
    encoder = networks.EncoderScaffold(
        pooled_output_dim=6,
        embedding_cls=embedding,
        embedding_data=embedding.get_embedding_table(),
        num_hidden_instances=1,
        hidden_cfg={
            "num_attention_heads": 2,
            "intermediate_size": 8,
            "intermediate_activation": "relu",
        },
    )
    whole, _ = encoder([WORDS, MASK, 0 * MASK])
    alone, _ = encoder([WORDS[:, 2:], MASK[:, 2:], 0 * MASK[:, 2:]])

    np.testing.assert_allclose(whole[:, 2:4], alone[:, :2], atol=1e-5)
    assert encoder.embedding_network is embedding
    assert encoder.get_embedding_table() is embedding.get_embedding_table()
    again = networks.EncoderScaffold.from_config(encoder.get_config())
    with pytest.raises(RuntimeError, match="embedding_data"):
        again.get_embedding_table()


@keras.saving.register_keras_serializable("quintain_tests")
class Counting(layers.Transformer):
    """A block that takes and gives a state: how many there were before it."""

    def build(self, input_shape):
        super().build(input_shape[0])

    def call(self, inputs, training=None):
        *inputs, state = inputs
        state = tf.constant(0.0) if state is None else state
        return super().call(inputs, training=training) + state, state + 1


def test_blocks_may_hand_on_a_state():
    encoder = networks.EncoderScaffold(
        pooled_output_dim=6,
        embedding_cls=build_embedding(),
        num_hidden_instances=3,
        hidden_cls=Counting,
        hidden_cfg={
            "num_attention_heads": 2,
            "intermediate_size": 8,
            "intermediate_activation": "relu",
        },
        recursive=True,
        layer_norm_before_pooling=True,
        dict_outputs=True,
    )

    outputs = encoder([WORDS, MASK, 0 * MASK])["encoder_outputs"]

    means = [float(tf.reduce_mean(one)) for one in outputs]
    np.testing.assert_allclose(means, [0.0, 1.0, 0.0], atol=1e-5)
    assert len(encoder.hidden_layers) == 3
