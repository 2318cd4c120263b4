"""Optimizers as levers of `learning.py`: each replaces what `Adam` does, for one process.

All take the rate, `beta_1`, `beta_2` and `epsilon` of the experiment's Adam, and its factors of the
rate.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from quintain.optimization import fused_optimizer
from quintain.optimization.rules import adam

State = dict[str, tf.Variable]
_STATES: dict[Any, State] = {}
BASIS_STEPS = 10
BASIS_DECAY = 0.95


def use_soap() -> None:
    """Has Adam see matrices in the eigenbasis of their gradients (SOAP, arXiv:2409.11321).

    One side of a matrix is turned, the smaller one, as the paper does with wide matrices; every
    tenth step takes a step of the power iteration. Embeddings and vectors stay with Adam.
    """

    def start(variable: Any) -> State:
        rows, columns = variable.shape
        side = min(rows, columns)
        return {
            "momentum": tf.Variable(tf.zeros([side, max(rows, columns)])),
            "velocity": tf.Variable(tf.zeros([side, max(rows, columns)])),
            "covariance": tf.Variable(tf.zeros([side, side])),
            "basis": tf.Variable(tf.eye(side)),
        }

    def update(gradient: Any, variable: Any, state: State, scalars: Any, count: Any) -> None:
        is_tall = variable.shape[0] > variable.shape[1]
        g = tf.transpose(gradient) if is_tall else gradient  # [side, other]
        square = tf.matmul(g, g, transpose_b=True)
        covariance = BASIS_DECAY * state["covariance"] + (1 - BASIS_DECAY) * square
        state["covariance"].assign(covariance)
        momentum = scalars.beta_1 * state["momentum"] + (1 - scalars.beta_1) * g
        state["momentum"].assign(momentum)
        basis = state["basis"].value()
        turned = tf.matmul(basis, g, transpose_a=True)
        velocity = scalars.beta_2 * state["velocity"] + (1 - scalars.beta_2) * turned**2
        state["velocity"].assign(velocity)
        mean = tf.matmul(basis, momentum, transpose_a=True) / (1 - scalars.beta_1_power)
        root = tf.sqrt(velocity / (1 - scalars.beta_2_power))
        step = tf.matmul(basis, mean / (root + scalars.epsilon))
        step = tf.transpose(step) if is_tall else step
        fused_optimizer.subtract(variable, scalars.learning_rate * step)
        state["basis"].assign(
            tf.cond(
                tf.equal(count % BASIS_STEPS, 1.0),
                lambda: tf.linalg.qr(tf.matmul(covariance, basis))[0],
                lambda: basis,
            )
        )

    _replace_rule(start, update, lambda path, shape: len(shape) == 2 and "embedding" not in path)


def use_schedule_free() -> None:
    """Has Adam without a schedule (Defazio et al., 2024, arXiv:2405.15682, algorithm 1).

    Weights are where the gradient is taken, between the steps' point and the mean of all points,
    with `beta_1` of the mean; `at_mean` is for evaluations.
    """

    def start(variable: Any) -> State:
        return {
            "point": tf.Variable(tf.convert_to_tensor(variable)),
            "velocity": tf.Variable(tf.zeros(variable.shape)),
            "weight": tf.Variable(0.0),
        }

    def update(gradient: Any, variable: Any, state: State, scalars: Any, count: Any) -> None:
        del count
        gradient = tf.convert_to_tensor(gradient)
        beta, rate = scalars.beta_1, scalars.learning_rate
        velocity = scalars.beta_2 * state["velocity"] + (1 - scalars.beta_2) * gradient**2
        state["velocity"].assign(velocity)
        root = tf.sqrt(velocity / (1 - scalars.beta_2_power))
        point = state["point"].value()
        mean = (tf.convert_to_tensor(variable) - (1 - beta) * point) / beta
        point -= rate * gradient / (root + scalars.epsilon)
        weight = state["weight"] + rate**2
        share = rate**2 / weight
        mean += share * (point - mean)
        state["weight"].assign(weight)
        state["point"].assign(point)
        fused_optimizer.write(variable, (1 - beta) * point + beta * mean)

    _replace_rule(start, update, lambda path, shape: True)


@contextlib.contextmanager
def at_mean(optimizer: Any, variables: Any) -> Iterator[None]:
    """Has the weights of `use_schedule_free` at the mean of their points; others as they are."""
    before = []
    for variable in variables:
        state = _STATES.get(optimizer._var_key(variable), {})
        if "point" in state:
            before.append((variable, variable.numpy()))
            point = (1 - optimizer.beta_1) * state["point"]
            variable.assign((variable.numpy() - point) / optimizer.beta_1)
    yield
    for variable, values in before:
        variable.assign(values)


def _replace_rule(
    start: Callable[[Any], State],
    update: Callable[[Any, Any, State, Any, Any], None],
    is_for: Callable[[str, Any], bool],
) -> None:
    """Has `update` for the weights that it is for, by path and shape, and Adam's for others."""
    prepare, update_by_adam = adam.Adam._prepare_rule, adam.Adam._update_variable

    def prepare_states(self: Any, variables: list[Any]) -> None:
        prepare(self, variables)
        for variable in variables:
            if is_for(fused_optimizer.get_path(variable), variable.shape):
                _STATES[self._var_key(variable)] = start(variable)

    def update_variable(self: Any, gradient: Any, variable: Any, hyper: dict[str, Any]) -> None:
        state = _STATES.get(self._var_key(variable))
        if state is None:
            update_by_adam(self, gradient, variable, hyper)
            return
        scalars = hyper["float32"]
        rate = self._scale_rate(scalars.learning_rate, variable)
        scalars = scalars._replace(learning_rate=rate)
        update(gradient, variable, state, scalars, self._read_count())

    adam.Adam._prepare_rule, adam.Adam._update_variable = prepare_states, update_variable
    adam.Adam._update_all = fused_optimizer.FusedOptimizer._update_all
