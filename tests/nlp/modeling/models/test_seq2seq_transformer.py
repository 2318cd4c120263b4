import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.checkpoints import checkpoint_fit, checkpoint_state
from quintain.nlp.modeling.layers import fused_attention
from quintain.nlp.modeling.layers.layer_normalization import LayerNormalization
from quintain.nlp.modeling.models import seq2seq_transformer, transformer_stacks

VOCAB_SIZE, WIDTH = 11, 8
SOURCE = np.array([[3, 4, 5, 1, 0], [6, 1, 0, 0, 0]], np.int32)
TARGET = np.array([[7, 8, 9, 1], [2, 1, 0, 0]], np.int32)


def build_model(*, norm_first=True, dropout_rate=0.0, **kwargs):
    layers = {
        "num_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "dropout_rate": dropout_rate,
        "attention_dropout_rate": dropout_rate,
        "intermediate_dropout": dropout_rate,
        "norm_first": norm_first,
    }
    return seq2seq_transformer.Seq2SeqTransformer(
        VOCAB_SIZE,
        WIDTH,
        dropout_rate,
        encoder_layer=transformer_stacks.TransformerEncoder(**layers),
        decoder_layer=transformer_stacks.TransformerDecoder(**layers),
        **{"beam_size": 3, "extra_decode_length": 3, **kwargs},
    )


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(1)
    return build_model()


def predict(model, source=SOURCE, target=TARGET):
    return model({"inputs": tf.constant(source), "targets": tf.constant(target)}).numpy()


def test_logits_do_not_depend_on_later_targets(model):
    changed = TARGET.copy()
    changed[:, 2:] = 5

    np.testing.assert_allclose(
        predict(model)[:, :3], predict(model, target=changed)[:, :3], atol=1e-6
    )


@pytest.mark.slow
def test_logits_depend_on_the_source_and_on_earlier_targets(model):
    other_source, other_target = SOURCE.copy(), TARGET.copy()
    other_source[0, 0] = 9
    other_target[0, 0] = 9

    assert np.abs(predict(model)[0, 0] - predict(model, source=other_source)[0, 0]).max() > 1e-4
    assert np.abs(predict(model)[0, 1] - predict(model, target=other_target)[0, 1]).max() > 1e-4


def test_padding_changes_nothing(model):
    source = np.pad(SOURCE, [[0, 0], [0, 3]])
    target = np.pad(TARGET, [[0, 0], [0, 2]])

    np.testing.assert_allclose(predict(model, source, target)[:, :4], predict(model), atol=1e-5)


def test_a_sentence_alone_gets_the_logits_it_gets_in_a_batch(model):
    alone = predict(model, SOURCE[1:, :2], TARGET[1:, :2])

    np.testing.assert_allclose(alone[0], predict(model)[1, :2], atol=1e-5)


def test_positions_are_sines_then_cosines(model):
    positions = model._encode_positions(tf.range(5)).numpy()

    frequencies = 10_000.0 ** (-np.arange(WIDTH // 2) / (WIDTH // 2 - 1))
    angles = np.arange(5)[:, np.newaxis] * frequencies
    expected = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    np.testing.assert_allclose(positions, expected, atol=1e-5)


def greedy_by_full_forward(model, source, max_length):
    ids = np.zeros([len(source), 0], np.int32)
    for _ in range(max_length):
        logits = predict(model, source, np.pad(ids, [[0, 0], [0, 1]], constant_values=3))
        ids = np.concatenate([ids, logits[:, -1].argmax(-1)[:, np.newaxis].astype(np.int32)], 1)
    return ids


@pytest.mark.slow
@pytest.mark.parametrize("norm_first", [True, False])
def test_cached_decoding_equals_the_full_forward_pass(norm_first):
    keras.utils.set_random_seed(3)
    greedy = build_model(norm_first=norm_first, beam_size=1, alpha=0.0, decode_max_length=6)
    expected = greedy_by_full_forward(greedy, SOURCE, 6)

    outputs = greedy({"inputs": tf.constant(SOURCE)})["outputs"].numpy()

    for row, wanted in zip(outputs, expected, strict=True):
        end = list(wanted).index(1) + 1 if 1 in wanted else len(wanted)
        np.testing.assert_array_equal(row[:end], wanted[:end])


def test_scores_are_the_normalised_log_probabilities_of_the_outputs(model):
    decoded = model({"inputs": tf.constant(SOURCE)})
    outputs = decoded["outputs"].numpy()

    log_probs = tf.nn.log_softmax(predict(model, SOURCE, outputs)).numpy()
    for row in range(2):
        ids = list(outputs[row])
        is_finished = 1 in ids
        # What did not end has as many as its source and three more.
        length = ids.index(1) + 1 if is_finished else np.count_nonzero(SOURCE[row]) + 3
        total = sum(log_probs[row, place, ids[place]] for place in range(length))
        norm = ((5 + length) / 6) ** 0.6 if is_finished else 1.0
        np.testing.assert_allclose(decoded["scores"][row], total / norm, rtol=1e-4)


@pytest.mark.long("Further cases of a test of which some run every time", but=["True"])
@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, True])
def test_decoding_with_fixed_shapes_gives_the_same_outputs(jit_compile):
    keras.utils.set_random_seed(4)
    dynamic = build_model(decode_max_length=7)
    fixed = build_model(decode_max_length=7, padded_decode=True)
    fixed.set_weights(dynamic.get_weights())

    expected = dynamic({"inputs": tf.constant(SOURCE)})
    search = tf.function(lambda source: fixed({"inputs": source}), jit_compile=jit_compile)
    found = search(tf.constant(SOURCE))

    length = expected["outputs"].shape[1]
    np.testing.assert_array_equal(found["outputs"][:, :length], expected["outputs"])
    np.testing.assert_allclose(found["scores"], expected["scores"], rtol=1e-5)


def test_outputs_are_at_most_the_allowed_length(model):
    outputs = model({"inputs": tf.constant(SOURCE)})["outputs"]

    assert outputs.shape[1] <= SOURCE.shape[1] + 3
    assert outputs.dtype == tf.int32


def test_gradients_reach_every_variable(model):
    with tf.GradientTape() as tape:
        logits = model({"inputs": tf.constant(SOURCE), "targets": tf.constant(TARGET)})
        loss = tf.reduce_sum(tf.nn.log_softmax(logits)[..., 3])
    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])

    without = [
        variable.path
        for variable, gradient in zip(model.trainable_variables, gradients, strict=True)
        if gradient is None or not np.abs(tf.convert_to_tensor(gradient)).max() > 0
    ]
    assert without == []


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_is_finite_and_close(model, policy):
    former = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    half = build_model()
    keras.config.set_dtype_policy(former)
    half.set_weights(model.get_weights())

    logits = half({"inputs": tf.constant(SOURCE), "targets": tf.constant(TARGET)})
    decoded = half({"inputs": tf.constant(SOURCE)})

    assert logits.dtype == tf.float32
    np.testing.assert_allclose(logits, predict(model), atol=0.15)
    assert np.isfinite(decoded["scores"]).all()
    assert all(v.dtype == "float32" for v in half.trainable_variables)


@pytest.mark.slow
def test_a_checkpoint_restores_all_weights(model, tmp_path):
    other = build_model()
    path = tf.train.Checkpoint(model=model).write(str(tmp_path / "c"))

    checkpoint_fit.restore_model(other, path)

    np.testing.assert_array_equal(predict(other), predict(model))


@pytest.mark.slow
def test_dropout_continues_from_a_restored_random_state():
    dropping = build_model(dropout_rate=0.5)
    inputs = {"inputs": tf.constant(SOURCE), "targets": tf.constant(TARGET)}
    dropping(inputs, training=True)
    state = checkpoint_state.RandomState(dropping)
    saved = state.serialize()
    expected = dropping(inputs, training=True).numpy()

    again = dropping(inputs, training=True).numpy()
    state.deserialize(saved)
    restored = dropping(inputs, training=True).numpy()

    np.testing.assert_array_equal(restored, expected)
    assert np.abs(again - expected).max() > 1e-3


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"padded_decode": True}, "decode_max_length: got None"),
        ({"embedding_width": 7}, "embedding_width: got 7"),
    ],
)
def test_impossible_sizes_are_errors(kwargs, message):
    with pytest.raises(errors.ConfigError, match=message):
        seq2seq_transformer.Seq2SeqTransformer(VOCAB_SIZE, **{"embedding_width": 8, **kwargs})


def test_heads_must_divide_the_width():
    with pytest.raises(errors.ConfigError, match="num_attention_heads: got 3"):
        fused_attention.SelfAttention(3, 8, dropout_rate=0.0, use_bias=False)


def test_layer_normalization_equals_that_of_keras():
    inputs = tf.constant(np.random.default_rng(0).normal(size=(4, 5, 8)), tf.float32)
    upstream = tf.constant(np.random.default_rng(1).normal(size=(4, 5, 8)), tf.float32)
    ours, theirs = LayerNormalization(1e-5), keras.layers.LayerNormalization(epsilon=1e-5)
    results = []
    for layer in (ours, theirs):
        layer.build((None, None, 8))
        layer.gamma.assign(np.linspace(0.5, 2.0, 8))
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = layer(inputs)
        variables = [inputs, layer.gamma.value, layer.beta.value]
        results.append([outputs, *tape.gradient(outputs, variables, upstream)])

    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_source_may_be_embedded_already(model):
    source = tf.constant(SOURCE)
    embedded = tf.gather(tf.convert_to_tensor(model.embedding), source) * WIDTH**0.5
    given = {"embedded_inputs": embedded, "input_masks": source > 0}

    logits = model({**given, "targets": tf.constant(TARGET)})

    np.testing.assert_allclose(logits, predict(model), atol=1e-5)
    with pytest.raises(KeyError, match="expected `inputs`, or `embedded_inputs`"):
        model({"targets": tf.constant(TARGET)})


def test_a_model_is_described_by_its_config_and_saved_with_it(model, tmp_path):
    assert model.get_config().items() >= {"vocab_size": VOCAB_SIZE, "beam_size": 3}.items()
    stack = model.decoder_layer
    again = transformer_stacks.TransformerDecoder.from_config(stack.get_config())
    assert again.get_config() == stack.get_config()

    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")

    np.testing.assert_allclose(predict(loaded), predict(model), atol=1e-6)


def test_all_outputs_of_the_decoder_are_normalised(model):
    target, memory = tf.ones([1, 2, WIDTH]), tf.ones([1, 3, WIDTH])

    outputs = model.decoder_layer(target, memory, return_all_decoder_outputs=True)

    assert len(outputs) == 2
    np.testing.assert_allclose(outputs[-1], model.decoder_layer(target, memory), atol=1e-6)
    np.testing.assert_allclose(tf.reduce_mean(outputs[0], -1), np.zeros([1, 2]), atol=1e-6)
