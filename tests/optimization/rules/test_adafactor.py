import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.optimization.rules import adafactor
from quintain.optimization.schedules import lr_schedule

_RULES = {
    "factored": {"min_dim_size_to_factor": 2},
    "whole": {},
    "not factored": {"factored": False, "min_dim_size_to_factor": 2},
    "momentum": {"min_dim_size_to_factor": 2, "beta1": 0.9},
    "absolute": {
        "multiply_by_parameter_scale": False,
        "clipping_threshold": None,
        "decay_rate": 0.5,
        "step_offset": 3,
    },
    "decay": {"weight_decay": 0.1, "include_in_weight_decay": ["_0", "_2"]},
}
_DEFAULTS = {
    "factored": True,
    "multiply_by_parameter_scale": True,
    "beta1": None,
    "decay_rate": 0.8,
    "step_offset": 0,
    "clipping_threshold": 1.0,
    "min_dim_size_to_factor": 128,
    "weight_decay": 0.0,
}


def _compute_rms(array):
    return np.sqrt(np.mean(array**2))


def _estimate(square, state, decay, axes):
    """Averages squares as a whole, or by the two axes and puts them together again."""
    if axes is None:
        state["v"] = decay * state.get("v", 0.0) + (1 - decay) * square
        return state["v"]
    first, second = axes
    state["r"] = decay * state.get("r", 0.0) + (1 - decay) * square.mean(first, keepdims=True)
    state["c"] = decay * state.get("c", 0.0) + (1 - decay) * square.mean(second, keepdims=True)
    return state["r"] * state["c"] / state["r"].mean(second, keepdims=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", _RULES)
def test_every_rule_follows_its_formula(name, trained, recompute, runner):
    rule = _DEFAULTS | _RULES[name]
    is_factored = rule["factored"] and rule["min_dim_size_to_factor"] == 2
    # The two largest axes of the shapes (3,), (4, 2) and (2, 3, 2), the largest first.
    axes = {(3,): None, (4, 2): (0, 1), (2, 3, 2): (1, 2)}
    decays = iter([rule["weight_decay"], 0.0, rule["weight_decay"]])

    def update(weight, gradient, number, state):
        state.setdefault("decay", next(decays) if not state else 0.0)
        decay = 1 - max(number - rule["step_offset"], 1) ** -rule["decay_rate"]
        chosen = axes[weight.shape] if is_factored else None
        step = gradient / np.sqrt(_estimate(gradient**2 + 1e-30, state, decay, chosen))
        if rule["clipping_threshold"]:
            step /= max(1.0, _compute_rms(step) / rule["clipping_threshold"])
        rate = 0.1 / number
        scale = max(_compute_rms(weight), 1e-3) if rule["multiply_by_parameter_scale"] else 1.0
        state["m"] = step * rate * scale + (
            (state.get("m", 0.0) - step * rate * scale) * rule["beta1"] if rule["beta1"] else 0.0
        )
        weight -= rate * state["decay"] * weight
        weight -= state["m"]

    rate = lr_schedule.InverseTimeDecay(0.1, 1.0)
    ours = trained(adafactor.Adafactor(rate, **_RULES[name]), 8, runner)

    for left, right in zip(ours, recompute(8, update), strict=True):
        np.testing.assert_allclose(left, right, rtol=5e-6, atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("decay", [None, 0.1])
def test_the_form_of_keras_gives_the_weights_that_keras_gives(decay, trained, runner):
    schedule = lr_schedule.CosineDecayWithOffset(0.5, 30)

    ours = trained(adafactor.AdafactorKeras(schedule, weight_decay=decay), 20, runner)
    theirs = trained(keras.optimizers.Adafactor(schedule, weight_decay=decay), 20)

    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("relative_step", [True, False])
def test_the_form_of_keras_follows_its_formula(relative_step, trained, recompute):
    axes = {(3,): None, (4, 2): (1, 0), (2, 3, 2): (2, 1)}

    def update(weight, gradient, number, state):
        square = gradient**2 + 1e-30
        step = gradient / np.sqrt(_estimate(square, state, 1 - number**-0.8, axes[weight.shape]))
        rate = min(0.9, 1 / np.sqrt(number)) if relative_step else 0.9
        scale = rate * max(_compute_rms(weight), 1e-3)
        weight -= scale * step / max(1.0, _compute_rms(step) / 0.5)

    optimizer = adafactor.AdafactorKeras(0.9, relative_step=relative_step, clip_threshold=0.5)

    for left, right in zip(trained(optimizer, 6), recompute(6, update), strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-5, atol=5e-6)


@pytest.mark.parametrize(
    ("build", "size"),
    [
        (lambda: adafactor.Adafactor(0.1), 300 + 200),
        (lambda: adafactor.Adafactor(0.1, min_dim_size_to_factor=201), 300 * 200),
        (lambda: adafactor.AdafactorKeras(0.1), 300 + 200),
    ],
)
def test_a_large_matrix_is_kept_by_rows_and_columns(build, size):
    optimizer = build()

    optimizer.build([keras.Variable(np.ones((300, 200), "float32"))])

    slots = optimizer.variables[2:]  # After the count of updates and the learning rate.
    assert sum(int(np.prod(slot.shape)) for slot in slots) == size


@pytest.mark.slow
@pytest.mark.parametrize("optimizer_cls", [adafactor.Adafactor, adafactor.AdafactorKeras])
def test_sparse_gradients_with_repeated_rows_count_like_dense_ones(optimizer_cls, train_embedding):
    sparse, dense = train_embedding(lambda: optimizer_cls(0.1))

    np.testing.assert_allclose(sparse, dense, rtol=1e-6)


@pytest.mark.parametrize("size", [1e-12, 1e8])
@pytest.mark.parametrize(
    "build",
    [
        lambda: adafactor.Adafactor(0.1, min_dim_size_to_factor=2),
        lambda: adafactor.AdafactorKeras(0.1),
    ],
)
def test_rows_and_columns_without_a_gradient_stay_while_others_move(build, size, runner):
    weight = keras.Variable(np.ones((3, 3), "float32"))
    gradient = tf.constant(
        size * np.array([[1.0, 2.0, 0.0], [3.0, 1.0, 0.0], [0.0] * 3]), "float32"
    )
    optimizer = build()
    optimizer.build([weight])
    step = runner(lambda: optimizer.apply([gradient], [weight]))

    for _ in range(3):
        step()

    assert ((weight.numpy() < 1.0) == (gradient.numpy() > 0.0)).all()
    assert (weight.numpy()[gradient.numpy() == 0.0] == 1.0).all()


@pytest.mark.parametrize("optimizer_cls", [adafactor.Adafactor, adafactor.AdafactorKeras])
def test_a_gradient_of_0_moves_nothing(optimizer_cls):
    weight = keras.Variable(np.ones((2, 2), "float32"))

    optimizer_cls(0.1).apply_gradients([(tf.zeros((2, 2)), weight)])

    assert weight.numpy().tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("optimizer_cls", "wrong"),
    [
        (adafactor.Adafactor, {"beta1": 1.0}),
        (adafactor.Adafactor, {"decay_rate": 0.0}),
        (adafactor.Adafactor, {"epsilon1": -1.0}),
        (adafactor.Adafactor, {"epsilon2": -1.0}),
        (adafactor.Adafactor, {"clipping_threshold": -1.0}),
        (adafactor.AdafactorKeras, {"beta_2_decay": 0.8}),
        (adafactor.AdafactorKeras, {"epsilon_1": -1.0}),
        (adafactor.AdafactorKeras, {"clip_threshold": 0.0}),
        (adafactor.AdafactorKeras, {"weight_decay": -1.0}),
    ],
)
def test_a_parameter_out_of_range_is_an_error(optimizer_cls, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        optimizer_cls(0.1, **wrong)
