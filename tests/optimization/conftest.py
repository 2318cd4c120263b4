"""Small sets of weights and gradients that the tests of the optimizers share."""

import keras
import numpy as np
import pytest
import tensorflow as tf

SHAPES = ((3,), (4, 2), (2, 3, 2))
_RUNNERS = {
    "eager": lambda step: step,
    "graph": tf.function,
    "xla": lambda step: tf.function(step, jit_compile=True),
}


def make_weights(dtype="float32"):
    """Makes one weight of each shape, named `weight_0`, `weight_1`, ..."""
    generator = np.random.default_rng(1)
    return [
        keras.Variable(generator.normal(size=shape), dtype=dtype, name=f"weight_{index}")
        for index, shape in enumerate(SHAPES)
    ]


def make_gradients(num_steps):
    """Makes the gradients of each step; they differ in size by orders of magnitude."""
    generator = np.random.default_rng(2)
    return [
        [
            (generator.normal(size=shape) * 10.0 ** generator.integers(-4, 3)).astype("float32")
            for shape in SHAPES
        ]
        for _ in range(num_steps)
    ]


def train(optimizer, weights, gradients, runner=_RUNNERS["graph"]):
    """Applies the gradients of each step and returns the values of the weights."""
    optimizer.build(weights)
    step = runner(lambda *parts: optimizer.apply_gradients(zip(parts, weights, strict=True)))
    for parts in gradients:
        step(*map(tf.constant, parts))
    return [weight.numpy() for weight in weights]


_OTHERS = pytest.mark.long(
    "Rules are the same eagerly and compiled, as test_every_optimizer.py shows"
)


@pytest.fixture(
    params=[
        pytest.param(runner, id=name, marks=() if name == "graph" else _OTHERS)
        for name, runner in _RUNNERS.items()
    ]
)
def runner(request):
    """Runs a step eagerly, in a graph, or compiled."""
    return request.param


@pytest.fixture
def trained():
    """Returns a function that trains fresh weights and returns their values."""
    return lambda optimizer, num_steps, runner=_RUNNERS["graph"]: train(
        optimizer, make_weights(), make_gradients(num_steps), runner
    )


@pytest.fixture
def fresh_weights():
    """The weights that `trained` starts from."""
    return make_weights()


@pytest.fixture
def fresh_gradients():
    """Returns a function that makes the gradients that `trained` applies."""
    return make_gradients


@pytest.fixture
def make_fresh_weights():
    """Returns a function that makes the weights that `trained` starts from."""
    return make_weights


@pytest.fixture
def train_weights():
    """Returns a function that trains given weights by given gradients."""
    return train


@pytest.fixture
def train_embedding(runner):
    """Returns a function that trains a table by a sparse and by a dense form of one gradient.

    It takes what builds an optimizer and returns both tables, `[3, 1]` float32.
    """
    rows = tf.IndexedSlices(
        tf.constant([[1.0], [2.0], [4.0]]), tf.constant([2, 0, 2]), tf.constant([3, 1])
    )
    dense = tf.constant([[2.0], [0.0], [5.0]])

    def train_one(optimizer, gradient):
        table = keras.Variable(np.ones((3, 1)))
        optimizer.build([table])
        step = runner(lambda: optimizer.apply([gradient], [table]))
        for _ in range(3):
            step()
        return table.numpy()

    return lambda build: (train_one(build(), rows), train_one(build(), dense))


@pytest.fixture
def recompute():
    """Returns a function that repeats a training in NumPy, in float64.

    It takes the number of steps and a function that changes one weight in place, from `weight`,
    `gradient`, the number of the step counted from 1, and a dict that lives as long as the weight.
    """

    def run(num_steps, update):
        weights = [weight.numpy().astype("float64") for weight in make_weights()]
        states = [{} for _ in weights]
        for number, gradients in enumerate(make_gradients(num_steps), start=1):
            for index, weight in enumerate(weights):
                update(weight, gradients[index].astype("float64"), number, states[index])
        return weights

    return run
