import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.kernels import modes, selection
from quintain.optimization.rules import adam
from quintain.optimization.schedules import lr_schedule

_BERT = {
    "weight_decay_rate": 0.1,
    "exclude_from_weight_decay": ["weight_[12]$"],
    "include_in_weight_decay": ["_2"],
}


def _compute_bert_adam(num_steps, weights, gradients, clip_norm):
    """Computes Adam with the decoupled weight decay of BERT in float64, straight from its rule."""
    weights = [weight.astype("float64") for weight in weights]
    means = [np.zeros_like(weight) for weight in weights]
    squares = [np.zeros_like(weight) for weight in weights]
    decays = [0.1, 0.0, 0.1]  # Excluded by `weight_[12]$`, but the last is included by `_2`.
    for step in range(1, num_steps + 1):
        rate = 0.02 * min(step - 1, 10) / 10
        parts = [part.astype("float64") for part in gradients[step - 1]]
        norm = np.sqrt(sum(np.sum(part**2) for part in parts))
        parts = [part * clip_norm / max(norm, clip_norm) for part in parts]
        for weight, mean, square, part, decay in zip(
            weights, means, squares, parts, decays, strict=True
        ):
            weight -= rate * decay * weight
            mean[...] = 0.9 * mean + 0.1 * part
            square[...] = 0.999 * square + 0.001 * part**2
            scale = rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            weight -= scale * mean / (np.sqrt(square) + 1e-6)
    return weights


@pytest.mark.slow
@pytest.mark.parametrize("amsgrad", [False, True])
def test_adam_gives_the_weights_that_keras_gives(amsgrad, trained, runner):
    schedule = lr_schedule.CosineDecayWithOffset(0.01, 80)
    rule = {"beta_2": 0.98, "epsilon": 1e-9, "amsgrad": amsgrad}

    ours = trained(adam.Adam(schedule, **rule), 100, runner)
    theirs = trained(keras.optimizers.Adam(schedule, **rule), 100)

    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("num_steps", [1, 30])
def test_adam_with_weight_decay_follows_the_rule_of_bert(
    num_steps, trained, fresh_weights, fresh_gradients, runner
):
    schedule = lr_schedule.PolynomialDecayWithOffset(0.0, 10, end_learning_rate=0.02)

    ours = trained(adam.AdamWeightDecay(schedule, epsilon=1e-6, **_BERT), num_steps, runner)

    start = [weight.numpy() for weight in fresh_weights]
    theirs = _compute_bert_adam(num_steps, start, fresh_gradients(num_steps), clip_norm=1.0)
    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("decay", [0.1, 0.0])
def test_adamw_gives_the_weights_that_keras_gives(decay, trained):
    schedule = lr_schedule.CosineDecayWithOffset(0.01, 80)

    ours = trained(adam.AdamW(schedule, weight_decay=decay), 50)
    theirs = trained(keras.optimizers.AdamW(schedule, weight_decay=decay), 50)

    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-6)


def test_without_a_clip_norm_large_gradients_keep_their_size(trained):
    plain = trained(adam.AdamWeightDecay(0.01, gradient_clip_norm=0.0), 20)

    for left, right in zip(plain, trained(adam.Adam(0.01), 20), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer_cls", [adam.Adam, adam.AdamWeightDecay])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_sparse_gradients_with_repeated_rows_count_like_dense_ones(
    optimizer_cls, amsgrad, train_embedding
):
    sparse, dense = train_embedding(lambda: optimizer_cls(0.1, amsgrad=amsgrad, clipnorm=1.0))

    np.testing.assert_allclose(sparse, dense, rtol=1e-6)


def test_weights_of_two_dtypes_train_together():
    weights = [keras.Variable([1.0], dtype="float32"), keras.Variable([1.0], dtype="float64")]
    optimizer = adam.AdamWeightDecay(0.1, weight_decay_rate=0.1)

    optimizer.apply_gradients([(tf.constant([1.0], weight.dtype), weight) for weight in weights])

    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-6)


def test_weight_decay_looks_at_the_whole_path_of_a_weight():
    model = keras.Sequential(
        [keras.layers.Dense(2, name="hidden"), keras.layers.LayerNormalization(name="layer_norm")],
        name="model",
    )
    model.build((None, 2))
    optimizer = adam.AdamWeightDecay(
        0.5,
        weight_decay_rate=0.5,
        exclude_from_weight_decay=["LayerNorm", "layer_norm", "bias"],
    )
    before = [weight.numpy() for weight in model.trainable_variables]

    optimizer.apply_gradients(
        [(tf.zeros_like(weight.value), weight) for weight in model.trainable_variables]
    )

    ratios = [0.75, 1.0, 1.0, 1.0]
    for weight, old, ratio in zip(model.trainable_variables, before, ratios, strict=True):
        np.testing.assert_allclose(weight, old * ratio, rtol=1e-6)


def test_patterns_that_exclude_nothing_are_warned_of(caplog):
    optimizer = adam.AdamWeightDecay(
        0.1, weight_decay_rate=0.1, exclude_from_weight_decay=["LayerNrom"]
    )

    with caplog.at_level(logging.WARNING):
        optimizer.build([keras.Variable([1.0], name="kernel")])

    assert "['LayerNrom'] matches none of 1 weights, such as 'kernel'" in caplog.text


@pytest.mark.parametrize("mode", [modes.KernelMode.NATIVE, modes.KernelMode.TENSORFLOW])
@pytest.mark.parametrize("optimizer_cls", [adam.Adam, adam.AdamWeightDecay, adam.AdamW])
def test_factors_of_the_learning_rate_are_chosen_by_paths(optimizer_cls, mode, caplog):
    names = ["embedding_table", "decoder_embedding", "kernel", "transferred_embedding"]
    weights = [keras.Variable([1.0], name=name) for name in names]
    optimizer = optimizer_cls(
        0.01, learning_rate_factors={"embedding": 8.0, "^decoder": 0.5, "encoder": 3.0}
    )
    optimizer = optimizer_cls.from_config(optimizer.get_config())
    with caplog.at_level(logging.WARNING):
        optimizer.build(weights)
    optimizer.set_rate_factors([(weights[3], 0.25)])

    with selection.training_scope(mode):
        optimizer.apply([tf.constant([0.3])] * 4, weights)

    # The first step of Adam is as large as the learning rate. AdamW decays by 0.004 of it.
    decay = 1.0 - 0.01 * (optimizer.weight_decay or 0.0)
    expected = [decay - 0.01 * factor for factor in (8.0, 4.0, 1.0, 2.0)]
    np.testing.assert_allclose(np.concatenate(weights), expected, rtol=1e-6)
    assert "learning_rate_factors: ['encoder'] matches none of 4 weights" in caplog.text
    assert caplog.text.count("matches none") == 1


@pytest.mark.parametrize(
    ("optimizer_cls", "wrong"),
    [
        (adam.Adam, {"beta_1": 1.0}),
        (adam.Adam, {"beta_2": -0.1}),
        (adam.Adam, {"epsilon": -1.0}),
        (adam.AdamWeightDecay, {"weight_decay_rate": -0.1}),
        (adam.AdamWeightDecay, {"gradient_clip_norm": -1.0}),
        (adam.AdamW, {"weight_decay": -1.0}),
    ],
)
def test_a_parameter_out_of_range_is_an_error(optimizer_cls, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        optimizer_cls(0.1, **wrong)
