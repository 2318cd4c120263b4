import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.nlp.modeling import layers
from quintain.nlp.modeling.layers import packed_rows

BLOCK = {"num_attention_heads": 2, "inner_dim": 6, "inner_activation": "relu"}
DECODER = {"num_attention_heads": 2, "intermediate_size": 6, "intermediate_activation": "relu"}


@pytest.fixture(autouse=True)
def _weights_are_the_same_each_time():
    keras.utils.set_random_seed(1)


def draw(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("f4")


@pytest.mark.parametrize("is_fixed", [False, True])
@pytest.mark.parametrize("options", [{}, {"kernel_regularizer": "l2"}])
def test_a_decoder_with_a_cache_finds_what_it_finds_at_once(options, is_fixed):
    block = layers.TransformerDecoderBlock(**DECODER, **options)
    x, memory = draw(2, 3, 4), draw(2, 5, 4)
    expected, none = block([x, memory, None, np.tril(np.ones((1, 3, 3)))])
    cache = dict.fromkeys(("key", "value"), tf.zeros([2, 3 if is_fixed else 0, 2, 2]))

    for step in range(3):
        mask = (np.arange(3) <= step).astype("f4")[np.newaxis, np.newaxis]
        more = {"decode_loop_step": step} if is_fixed else {}
        inputs = [x[:, step : step + 1], memory, None, mask if is_fixed else None]
        output, returned = block(inputs, cache=cache, **more)
        assert returned is cache
        np.testing.assert_allclose(output[:, 0], expected[:, step], atol=1e-5)

    assert none is None
    assert cache["key"].shape == [2, 3, 2, 2]


def test_kernel_attention_streams_what_it_computes_at_once():
    layer = layers.KernelAttention(
        num_heads=2,
        key_dim=2,
        feature_transform="elu",
        num_random_features=0,
        use_causal_windowed=True,
        causal_window_length=3,
        causal_window_decay=0.5,
    )
    x = draw(1, 3, 4)
    expected = layer(x, x)
    cache = {"kv": tf.zeros([1, 2, 2, 2]), "k_sum": tf.zeros([1, 2, 2])}

    for step in range(3):
        one = x[:, step : step + 1]
        output = layer(one, one, cache=cache)
        np.testing.assert_allclose(output[:, 0], expected[:, step], atol=1e-5)


@pytest.mark.parametrize("kind", ["TransformerEncoderBlock", "Transformer", "TransformerScaffold"])
def test_blocks_of_published_attention_skip_padding(kind):
    block = getattr(layers, kind)(2, 6, "relu")
    x, is_token = draw(2, 3, 4), np.array([[1, 1, 1], [1, 0, 0]])
    mask = is_token[:, np.newaxis].astype("f4")
    rows = packed_rows.PackedRows(tf.constant(is_token > 0))

    whole = block([x, mask])
    alone = block([rows.pack(tf.constant(x)), mask], rows=rows)

    assert block.takes_rows
    np.testing.assert_allclose(alone, whole.numpy()[is_token > 0], atol=1e-5)
    other = layers.TransformerEncoderBlock(**BLOCK, attention_axes=(1,))
    assert not other.takes_rows


def test_fused_attention_is_that_of_keras():
    fused = layers.TransformerEncoderBlock(**BLOCK)
    general = layers.TransformerEncoderBlock(**BLOCK, key_dim=2)
    x, mask = draw(2, 3, 4), np.tril(np.ones((2, 3, 3)))
    fused([x, mask])
    general([x, mask])

    parts = np.split(general.self_attention._query_dense.kernel.numpy().reshape(4, 4), 1)
    for name in ("key", "value"):
        dense = getattr(general.self_attention, f"_{name}_dense")
        parts.append(dense.kernel.numpy().reshape(4, 4))
    fused.self_attention.query_key_value.kernel.assign(np.concatenate(parts, axis=1))
    output = general.self_attention._output_dense.kernel.numpy().reshape(4, 4)
    fused.self_attention.output_projection.kernel.assign(output)
    for name in ("expand", "contract"):
        kernel = getattr(general.feed_forward, name).kernel
        getattr(fused.feed_forward, name).kernel.assign(kernel)

    np.testing.assert_allclose(fused([x, mask]), general([x, mask]), atol=1e-5)


@pytest.mark.parametrize(
    ("layer", "inputs"),
    [
        (layers.TransformerEncoderBlock(**BLOCK), [(3, 4), (3, 3)]),
        (layers.TransformerEncoderBlock(**BLOCK, norm_first=True), [(None, 4), (None, None)]),
        (layers.TransformerEncoderBlock(**BLOCK, attention_axes=(1, 2)), [(3, 2, 4)]),
        (layers.TransformerScaffold(2, feedforward_cls=layers.GatedFeedforward), [(3, 4), (3, 3)]),
    ],
)
def test_models_of_layers_keep_the_shapes_that_are_known(layer, inputs):
    inputs = [keras.Input(shape) for shape in inputs]

    output = layer(inputs if len(inputs) > 1 else inputs[0])

    assert output.shape == inputs[0].shape


@pytest.mark.slow
def test_a_saved_model_computes_what_it_did(tmp_path):
    block = layers.TransformerScaffold(
        2, attention_cls=layers.TalkingHeadsAttention, feedforward_cls=layers.GatedFeedforward
    )
    inputs = keras.Input((3, 4))
    model = keras.Model(inputs, layers.ClassificationHead(4, 2)(block(inputs)))

    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")

    x = draw(2, 3, 4)
    np.testing.assert_allclose(again(x), model(x), atol=1e-6)


class SelfAttention:
    """Attention that is no layer; one with a cache."""

    def __init__(self, **options):
        self.options = options

    def __call__(self, query, value, attention_mask=None, cache=None, **others):
        return 2 * query, cache


class Attention(SelfAttention):
    """Attention that is no layer."""

    def __call__(self, query, value, attention_mask=None, **others):
        return 2 * query


def test_attention_may_be_of_a_class_that_is_no_layer():
    block = layers.TransformerDecoderBlock(
        2, 8, "relu", self_attention_cls=SelfAttention, cross_attention_cls=Attention
    )
    x, mask = draw(2, 3, 4), np.ones((2, 3, 3), np.float32)

    output, _ = block([x, x, mask, mask])

    assert output.shape == (2, 3, 4)
    assert block.self_attention.options["num_heads"] == 2
    assert block.cross_attention.options["output_shape"] == 4
    scaffold = layers.TransformerScaffold(2, attention_cls=Attention)
    assert scaffold([x, mask]).shape == (2, 3, 4)


def test_initializers_draw_each_part_as_a_layer_of_its_own():
    block = layers.TransformerEncoderBlock(
        2, 600, "relu", kernel_initializer=keras.initializers.RandomNormal(stddev=0.1)
    )
    block.build((None, None, 100))

    kernel = block.self_attention.query_key_value.kernel.numpy()
    queries, keys, values = np.split(kernel, 3, axis=1)

    assert kernel.std() == pytest.approx(0.1, rel=0.02)
    assert not np.any(np.isclose(queries, keys) & np.isclose(keys, values))
    default = layers.TransformerEncoderBlock(2, 600, "relu")
    default.build((None, None, 100))
    # Glorot's limit of a kernel [D, H, D / H], as in the Model Garden.
    limit = np.abs(default.self_attention.query_key_value.kernel.numpy()).max()
    assert limit == pytest.approx(np.sqrt(6 / (100 * 52)), rel=0.01)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: layers.TransformerEncoderBlock(**BLOCK, diff_q_kv_att_layer_norm=True),
            "diff_q_kv_att_layer_norm.*norm_first=False",
        ),
        (
            lambda: layers.TransformerEncoderBlock(**BLOCK, src_block_size=2, num_kv_heads=2),
            "num_kv_heads: got 2 with src_block_size=2",
        ),
        (
            lambda: layers.TransformerEncoderBlock(**BLOCK, src_block_size=2)(draw(1, 3, 4)),
            "src_block_size: got 2.*3, must be divisible",
        ),
        (lambda: layers.ReZeroTransformer(2, linformer_dim=3), "linformer_dim: got 3"),
        (
            lambda: layers.MultiQueryAttention(num_heads=4, key_dim=2, num_kv_heads=3),
            "num_kv_heads: got 3, expected a divisor of num_heads=4",
        ),
        (
            lambda: layers.ReuseMultiHeadAttention(2, 2, reuse_attention=3),
            "reuse_attention: got 3.*between -1 and",
        ),
        (
            lambda: layers.KernelAttention(feature_transform="cos", num_heads=2, key_dim=2),
            "feature_transform: got 'cos'.*elu, relu",
        ),
        (lambda: layers.GatedFeedforward(dropout_position="in"), "before_residual or after"),
        (lambda: layers.BlockDiagFeedforward(5, "relu", 0.0, 2), r"\(5\) isn't a multiple"),
        (lambda: layers.PositionEmbedding(None), "`max_length` must be an Integer"),
        (lambda: layers.MaskedLM(tf.zeros([3, 2]), output="bad"), 'Unknown `output` value "bad"'),
        (lambda: layers.SelectTopK(), "top_k: got None"),
        (lambda: layers.RelativePositionEmbedding(4)(None), "inputs: got None"),
        (lambda: layers.TransformerDecoderBlock(**DECODER)([draw(1, 2, 4)] * 3), "got 3 tensors"),
        (lambda: layers.TransformerScaffold(3)(draw(1, 2, 4)), "num_attention_heads: got 3"),
        (lambda: layers.TransformerScaffold(2)(draw(1, 2, 2, 4)), "got the shape"),
        (lambda: layers.ReuseTransformer(**BLOCK, reuse_attention=1)(draw(1, 2, 4)), "cannot be"),
    ],
)
def test_what_cannot_be_is_told_when_it_is_asked_for(make, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        make()


def test_what_is_not_offered_says_what_to_use():
    message = re.escape("Use `layers.ClassificationHead`")
    with pytest.raises(AttributeError, match=message):
        layers.GaussianProcessClassificationHead  # noqa: B018


def test_regularizers_and_constraints_reach_the_kernels():
    block = layers.TransformerDecoderBlock(
        **DECODER, kernel_regularizer="l2", kernel_constraint="non_neg"
    )

    block([draw(1, 2, 4), draw(1, 3, 4), None, None])

    assert len(block.losses) == 10
    assert all(w.constraint for w in block.weights if w.path.endswith("kernel"))


def test_misspelt_heads_are_a_config_error():
    with pytest.raises(errors.ConfigError, match="expected a divisor of the width 4"):
        layers.TransformerDecoderBlock(3, 6, "relu")([draw(1, 2, 4)] * 4)
