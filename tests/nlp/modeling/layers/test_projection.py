import numpy as np
import pytest
import tensorflow as tf

from quintain.nlp.modeling.layers import projection


@pytest.mark.parametrize("use_bias", [False, True])
def test_outputs_and_gradients_are_those_of_a_product_and_a_sum(use_bias):
    layer = projection.Projection(4, num_parts=2, use_bias=use_bias)
    layer.build((None, None, 3))
    if use_bias:
        layer.bias.assign(np.arange(8.0))
    inputs = tf.random.stateless_normal([2, 5, 3], [1, 2])
    upstream = tf.random.stateless_normal([2, 5, 8], [3, 4])
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = layer(inputs)
    kernel = layer.kernel.numpy()
    expected = inputs.numpy() @ kernel + (layer.bias.numpy() if use_bias else 0.0)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)

    variables = [variable.value for variable in layer.trainable_variables]
    found = tape.gradient(outputs, [inputs, *variables], output_gradients=upstream)
    by_hand = [
        upstream.numpy() @ kernel.T,
        np.einsum("bqd,bqo->do", inputs, upstream),
        np.sum(upstream, axis=(0, 1)),
    ]
    for ours, theirs in zip(found, by_hand, strict=False):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    assert len(found) == 2 + use_bias
