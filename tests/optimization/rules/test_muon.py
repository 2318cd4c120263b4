import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.optimization.rules import muon
from quintain.optimization.schedules import lr_schedule

_RULES = {
    "default": {},
    "no nesterov": {"nesterov": False, "ns_steps": 3, "weight_decay": None},
    "no factor": {"rms_rate": None, "adam_weight_decay": None, "adam_lr_ratio": 0.5},
    "excluded": {"exclude_layers": ["weight_1"]},
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", _RULES.values(), ids=_RULES)
def test_every_rule_gives_the_weights_that_keras_gives(rule, trained, runner):
    schedule = lr_schedule.CosineDecayWithOffset(0.01, 30)

    ours = trained(muon.Muon(schedule, **rule), 15, runner)
    theirs = trained(keras.optimizers.Muon(schedule, **rule), 15)

    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-6, atol=2e-6)


def test_it_follows_its_formula(trained, recompute):
    def orthogonalize(matrix):
        x = matrix / (np.linalg.norm(matrix) + 1e-7)
        for _ in range(5):
            x = 3.4445 * x - 4.775 * x @ x.T @ x + 2.0315 * x @ x.T @ x @ x.T @ x
        return x

    def update(weight, gradient, number, state):
        weight -= 0.01 * 0.004 * weight
        if weight.ndim == 2:
            state["m"] = 0.95 * state.get("m", 0.0) + gradient
            step = orthogonalize(gradient + 0.95 * state["m"])
            weight -= 0.01 * 0.2 * np.sqrt(max(weight.shape)) * step
            return
        state["m"] = 0.9 * state.get("m", 0.0) + 0.1 * gradient
        state["v"] = 0.999 * state.get("v", 0.0) + 0.001 * gradient**2
        rate = 0.01 * np.sqrt(1 - 0.999**number) / (1 - 0.9**number)
        weight -= rate * state["m"] / (np.sqrt(state["v"]) + 1e-7)

    ours = trained(muon.Muon(0.01), 8)

    for left, right in zip(ours, recompute(8, update), strict=True):
        np.testing.assert_allclose(left, right, rtol=5e-6, atol=5e-6)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4)])
def test_orthogonalizing_keeps_singular_vectors_and_makes_values_1(shape):
    matrix = np.random.default_rng(1).normal(size=shape).astype("float32")
    left, _, right = np.linalg.svd(matrix, full_matrices=False)

    actual = muon.orthogonalize(tf.constant(matrix), factors=(1.5, -0.5, 0.0), num_steps=40)

    np.testing.assert_allclose(actual, left @ right, atol=1e-4)


@pytest.mark.parametrize("excludes", [True, False])
def test_embeddings_are_updated_by_adam_unless_told_otherwise(excludes):
    table = keras.layers.Embedding(3, 2, name="word_embedding")
    table.build()
    optimizer = muon.Muon(0.1, exclude_embeddings=excludes)

    optimizer.build([table.embeddings])

    assert len(optimizer.variables) == (4 if excludes else 3)


def test_sparse_gradients_with_repeated_rows_count_like_dense_ones(train_embedding):
    sparse, dense = train_embedding(lambda: muon.Muon(0.1))

    np.testing.assert_allclose(sparse, dense, rtol=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [
        {"adam_beta_1": 1.0},
        {"adam_beta_2": -0.1},
        {"momentum": 1.0},
        {"epsilon": -1.0},
        {"weight_decay": -1.0},
        {"adam_weight_decay": -1.0},
        {"ns_steps": -1},
        {"rms_rate": -1.0},
    ],
)
def test_a_parameter_out_of_range_is_an_error(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        muon.Muon(0.1, **wrong)
