import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.modeling import rematerialization
from quintain.nlp.modeling import layers
from quintain.nlp.modeling.models import transformer_stacks

OPTIONS = {
    "num_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "dropout_rate": 0.1,
    "attention_dropout_rate": 0.1,
    "intermediate_dropout": 0.1,
    "use_bias": True,
}


class Translator(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder = transformer_stacks.TransformerEncoder(**OPTIONS)
        self.decoder = transformer_stacks.TransformerDecoder(**OPTIONS)

    def call(self, inputs):
        source, target = inputs
        mask = tf.ones([3, 1, 5])
        memory = self.encoder(source, mask)
        return self.decoder(target, memory, tf.linalg.band_part(tf.ones([1, 4, 4]), -1, 0), mask)


@contextlib.contextmanager
def without_fusion():
    """Else TensorFlow joins operations whose outputs nobody else needs, and rounds less often."""
    former = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options({"remapping": False})
    yield
    tf.config.optimizer.set_experimental_options({"remapping": former.get("remapping", True)})


def train_twice(policy, *, is_recomputed, is_eager):
    """Returns losses and gradients of two steps, and the state of dropout after them."""
    keras.utils.set_random_seed(1)
    former = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    model = Translator()
    inputs = [tf.random.stateless_normal([3, size, 8], [1, size]) for size in (5, 4)]
    model(inputs)
    keras.config.set_dtype_policy(former)

    def step(*inputs):
        with rematerialization.enabled() if is_recomputed else contextlib.nullcontext() as counter:
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                loss = tf.reduce_sum(tf.cast(model(list(inputs), training=True), tf.float32) ** 3)
            weights = [weight.value for weight in model.trainable_variables]
            gradients = tape.gradient(loss, [*inputs, *weights])
        assert counter is None or counter.num_layers == 2
        return [loss, *gradients]

    run = step if is_eager else tf.function(step)
    values = [value.numpy() for _ in range(2) for value in run(*inputs)]
    return values + [state.numpy() for state in model.non_trainable_variables]


@pytest.mark.long("Further cases of a test of which some run every time", but=["float32-False"])
@pytest.mark.slow
@pytest.mark.parametrize(("policy", "is_eager"), [("float32", False), ("mixed_bfloat16", True)])
def test_gradients_and_dropout_are_the_same_to_the_bit(policy, is_eager):
    with without_fusion():
        kept, recomputed = (
            train_twice(policy, is_recomputed=is_recomputed, is_eager=is_eager)
            for is_recomputed in (False, True)
        )

    assert len(kept) == len(recomputed)
    assert not np.array_equal(kept[0], kept[len(kept) // 3])  # Other elements are dropped.
    for ours, theirs in zip(recomputed, kept, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_insides_wait_for_the_gradient_of_the_output():
    block = layers.TransformerEncoderBlock(2, 16, "relu", output_dropout=0.1)
    block.build((3, 5, 8))

    @tf.function(autograph=False)
    def step(x):
        with rematerialization.enabled(), tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(block(x, training=True))
        return tape.gradient(loss, x)

    operations = step.get_concrete_function(tf.TensorSpec([3, 5, 8])).graph.get_operations()

    waiting = [
        op
        for op in operations
        if any("gradient_tape" in awaited.name for awaited in op.control_inputs)
    ]
    num_state = len(block.non_trainable_variables)
    assert len(waiting) == 1 + len(block.trainable_variables) + num_state


def test_losses_that_a_block_adds_are_kept():
    options = {"kernel_regularizer": None, "activity_regularizer": keras.regularizers.L2(0.5)}
    block = layers.TransformerEncoderBlock(2, 16, "relu", **options)
    block.build((3, 5, 8))
    x = tf.random.stateless_normal([3, 5, 8], [1, 2])

    block(x, training=True)
    expected = [loss.numpy() for loss in block.losses]
    with rematerialization.enabled(), tf.GradientTape() as tape:
        block(x, training=True)
        losses = block.losses
        total = tf.add_n(losses)
    gradients = tape.gradient(total, [weight.value for weight in block.trainable_variables])

    assert expected
    assert sorted(loss.numpy() for loss in losses) == sorted(expected)
    assert any(gradient is not None for gradient in gradients)


def test_evaluation_is_computed_as_ever():
    block = layers.TransformerEncoderBlock(2, 16, "relu")

    with rematerialization.enabled() as counter:
        block(tf.ones([3, 5, 8]), training=False)

    assert counter.num_layers == 0
