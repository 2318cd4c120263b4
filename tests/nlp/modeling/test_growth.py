import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.nlp.modeling import growth
from quintain.nlp.modeling.models import seq2seq_transformer, transformer_stacks

INPUTS = {
    "inputs": tf.constant([[5, 9, 3, 1, 0], [4, 4, 7, 8, 1]]),
    "targets": tf.constant([[6, 2, 8, 1], [3, 1, 0, 0]]),
}


def build(*, factor=1, num_layers=(1, 1), inner=16, **arguments):
    shared = {"num_attention_heads": 2 * factor, "intermediate_size": inner, **arguments}
    return seq2seq_transformer.Seq2SeqTransformer(
        vocab_size=11,
        embedding_width=8 * factor,
        position_repeats=factor,
        extra_decode_length=3,
        encoder_layer=transformer_stacks.TransformerEncoder(num_layers=num_layers[0], **shared),
        decoder_layer=transformer_stacks.TransformerDecoder(num_layers=num_layers[1], **shared),
    )


def build_trained(**arguments):
    """A model in which no weight has the value that it starts with."""
    keras.utils.set_random_seed(4)
    model = build(**arguments)
    generator = np.random.default_rng(2)
    for variable in model.trainable_variables:
        variable.assign(variable + generator.normal(scale=0.2, size=variable.shape))
    return model


@pytest.mark.long(
    "Further cases of a test of which some run every time",
    but=["factor-inner-num_layers-arguments1", "inner-arguments2"],
)
@pytest.mark.slow
@pytest.mark.parametrize("arguments", [{}, {"use_bias": True}, {"activation": "swiglu"}])
@pytest.mark.parametrize(
    "change",
    [
        {"num_layers": (3, 2)},
        {"factor": 2},
        {"factor": 3, "inner": 32},
        {"factor": 2, "inner": 32, "num_layers": (2, 3)},
        {"inner": 48},
    ],
    ids=lambda change: "-".join(change),
)
def test_a_grown_model_computes_what_the_small_one_did(change, arguments):
    old, new = build_trained(**arguments), build(**change, **arguments)

    growth.grow(old, new)

    np.testing.assert_allclose(new(INPUTS), old(INPUTS), rtol=1e-5, atol=1e-5)
    searched = [model({"inputs": INPUTS["inputs"]}) for model in (old, new)]
    np.testing.assert_array_equal(searched[0]["outputs"], searched[1]["outputs"])
    np.testing.assert_allclose(searched[0]["scores"], searched[1]["scores"], rtol=1e-5)


@pytest.mark.slow
def test_a_model_that_normalises_outputs_can_grow_wider_but_not_deeper():
    old = build_trained(norm_first=False)
    wide = build(factor=2, norm_first=False)

    growth.grow(old, wide)

    np.testing.assert_allclose(wide(INPUTS), old(INPUTS), rtol=1e-5, atol=1e-5)
    with pytest.raises(errors.ConfigError, match="depth grows under pre-norm only"):
        growth.grow(old, build(num_layers=(2, 1), norm_first=False))


@pytest.mark.slow
def test_growth_in_two_steps_keeps_the_function():
    old, middle, new = build_trained(), build(factor=2), build(factor=4, num_layers=(2, 2))

    growth.grow(old, middle)
    growth.grow(middle, new)

    np.testing.assert_allclose(new(INPUTS), old(INPUTS), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_copies_part_ways_and_new_blocks_learn():
    old, new = build_trained(), build(factor=2, num_layers=(2, 2))
    growth.grow(old, new)
    kernels = [new.encoder.blocks[1].feed_forward.contract.kernel]
    kernels.append(new.decoder.blocks[0].self_attention.query_key_value.kernel)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(new(INPUTS) - 1.0))
    silent, copied = tape.gradient(loss, [kernel.value for kernel in kernels])

    assert np.abs(silent).max() > 1e-4
    top, bottom = np.split(copied.numpy(), 2)
    left, right = np.split(copied.numpy()[:, :16], 2, axis=1)
    np.testing.assert_allclose(top, bottom, atol=1e-5)  # equal inputs
    assert np.abs(left - right).max() > 1e-4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_layers": (1, 0)}, r"decoder\.num_layers: got 0 after 1"),
        ({"inner": 24}, r"encoder\.intermediate_size: got 24 after 16, expected a multiple"),
        ({"activation": "gelu"}, r"encoder\.activation: got 'gelu' after 'relu'"),
        ({"num_attention_heads": 4}, r"num_attention_heads: got 4 after 2, expected 2"),
    ],
)
def test_a_model_that_cannot_hold_the_small_one_is_refused(change, message):
    with pytest.raises(errors.ConfigError, match=message):
        growth.grow(build_trained(), build(**change))
