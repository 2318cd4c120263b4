"""Small odd translation models, drawn at random, train natively as with TensorFlow's operations."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.kernels import library, modes
from quintain.modeling import rematerialization, token_losses
from quintain.nlp.modeling import activations, models
from tests.kernels import native_steps

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        library.find_reason() is not None, reason=f"No native kernels: {library.find_reason()}"
    ),
]

NATIVE, PLAIN = modes.KernelMode.NATIVE, modes.KernelMode.TENSORFLOW


@dataclasses.dataclass(frozen=True)
class Case:
    """A model, and what it is trained with."""

    model: dict
    stacks: dict
    ids: dict
    smoothing: float
    is_rematerialized: bool
    seed: int


def draw_case(seed):
    """Draws sizes that are multiples of nothing, rows that are all padding, and rare options."""
    random = np.random.default_rng(seed)
    heads, vocab_size = random.choice([1, 2, 3]), int(random.choice([3, 17, 33]))
    stacks = {
        "num_layers": 1,
        "num_attention_heads": int(heads),
        "intermediate_size": int(random.choice([1, 7, 33])),
        "activation": random.choice(["relu", activations.approximate_gelu, "tanh"]),
        "norm_first": bool(random.integers(2)),
        "use_bias": bool(random.integers(2)),
        "dropout_rate": float(random.choice([0.0, 0.1, 0.97])),
        "attention_dropout_rate": float(random.choice([0.0, 0.1, 0.9])),
        "intermediate_dropout": float(random.choice([0.0, 0.1, 0.999])),
    }
    model = {
        "vocab_size": vocab_size,
        "embedding_width": int(2 * heads * random.choice([1, 3, 8, 17])),
        "dropout_rate": 0.1,
        "skip_padding": bool(random.integers(2)),
        "embed_start": bool(random.integers(2)),
        "target_vocab_size": random.choice([None, vocab_size + 2]),
    }
    ids = {}
    for name in ("inputs", "targets"):
        shape = random.integers(1, [5, 12])
        lengths = random.integers(0, shape[1] + 1, size=[shape[0], 1])  # Of nothing, too.
        tokens = random.integers(1, vocab_size, size=shape)
        ids[name] = np.where(np.arange(shape[1]) < lengths, tokens, 0).astype(np.int32)
    count = min(len(rows) for rows in ids.values())
    ids = {name: rows[:count] for name, rows in ids.items()}
    is_rematerialized = bool(random.integers(2))
    return Case(model, stacks, ids, float(random.choice([0.0, 0.1])), is_rematerialized, seed)


def compute_gradients(case, policy, mode):
    """Returns the loss and the gradients of a case's first training step."""
    keras.utils.set_random_seed(case.seed)
    keras.config.set_dtype_policy(policy)
    try:
        encoder = models.TransformerEncoder(**case.stacks)
        decoder = models.TransformerDecoder(**case.stacks)
        model = models.Seq2SeqTransformer(
            encoder_layer=encoder, decoder_layer=decoder, **case.model
        )
    finally:
        keras.config.set_dtype_policy("float32")

    def step(ids):
        with tf.GradientTape() as tape:
            logits = model(ids, training=True)
            losses, weights = token_losses.padded_cross_entropy(
                logits, ids["targets"], smoothing=case.smoothing
            )
            loss = tf.math.divide_no_nan(tf.reduce_sum(losses), tf.reduce_sum(weights))
        values = [weight.value for weight in model.trainable_variables]
        gradients = tape.gradient(loss, values, unconnected_gradients="zero")
        return [loss, *map(tf.convert_to_tensor, gradients)]

    def recompute(ids):
        with rematerialization.enabled():
            return step(ids)

    chosen = recompute if case.is_rematerialized else step
    given = {name: tf.constant(rows) for name, rows in case.ids.items()}
    return [one.numpy() for one in native_steps.trace(chosen, mode)(given)]


def measure_distance(some, others):
    """Returns how far tensors are from others, as a share of their size."""
    difference = np.sqrt(sum(np.square(a - b).sum() for a, b in zip(some, others, strict=True)))
    return difference / np.sqrt(sum(np.square(one).sum() for one in others) + 1e-12)


@pytest.mark.long("Further cases of a test of which some run every time", but=["0"])
@pytest.mark.parametrize("seed", range(6))
def test_gradients_in_float32_are_those_of_tensorflow(seed):
    case = draw_case(seed)

    found = compute_gradients(case, "float32", NATIVE)

    assert measure_distance(found, compute_gradients(case, "float32", PLAIN)) < 2e-5
    again = compute_gradients(case, "float32", NATIVE)
    for former, latter in zip(found, again, strict=True):
        np.testing.assert_array_equal(former, latter)


@pytest.mark.long("Each kernel is compared in bfloat16 in every run")
def test_gradients_in_bfloat16_are_as_near_to_float32_as_tensorflows():
    errors = {NATIVE: [], PLAIN: []}
    for seed in range(10, 17):
        case = draw_case(seed)
        exact = compute_gradients(case, "float32", PLAIN)
        for mode, found in errors.items():
            found.append(measure_distance(compute_gradients(case, "mixed_bfloat16", mode), exact))

    assert np.median(errors[NATIVE]) <= 1.5 * np.median(errors[PLAIN])
