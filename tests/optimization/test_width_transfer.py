import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.kernels import modes, selection
from quintain.optimization import width_transfer
from quintain.optimization.rules import adam, lamb, sgd

_OPTIMIZERS = {
    "adam": lambda: adam.Adam(0.01),
    "amsgrad": lambda: adam.Adam(0.01, amsgrad=True),
    "sgd": lambda: sgd.SGD(0.1, momentum=0.9),
}


def build_dense(width, num_layers=3):
    hidden = [
        keras.layers.Dense(width, activation="relu", kernel_initializer="he_normal")
        for _ in range(num_layers)
    ]
    return keras.Sequential([keras.Input([8]), *hidden, keras.layers.Dense(4)])


def build_attention(width, head_size=4):
    inputs = keras.Input([5, 3])
    x = keras.layers.Dense(width)(inputs)
    x = x + keras.layers.MultiHeadAttention(width // head_size, head_size)(x, x)
    x = keras.layers.LayerNormalization()(x)
    return keras.Model(inputs, keras.layers.Dense(4)(x)[:, 0])


def build_convolutions(width):
    layers = [keras.layers.Conv2D(width, 3), keras.layers.Conv2D(2 * width, 3)]
    return keras.Sequential([keras.Input([8, 8, 1]), *layers, keras.layers.Flatten()])


def find_growths(build, width, base_width):
    growths = width_transfer.find_growths(build(width), build(base_width))
    return [(growth.inputs, growth.outputs) for growth in growths]


def test_first_hidden_and_last_layers_grow_as_their_shapes_do():
    # A kernel and a bias of each layer.
    assert find_growths(lambda width: build_dense(width, 2), 64, 16) == [
        *[(1.0, 4.0), (1.0, 4.0)],
        *[(4.0, 4.0), (1.0, 4.0)],
        *[(4.0, 1.0), (1.0, 1.0)],
    ]


def test_the_inputs_of_attention_are_known_whatever_the_order_of_its_sizes():
    growths = find_growths(build_attention, 16, 8)

    projections, output = growths[2:8], growths[8:10]
    assert projections == [(2.0, 2.0), (1.0, 2.0)] * 3  # A kernel [D, H, d] and its bias.
    assert output == [(2.0, 2.0), (1.0, 2.0)]  # A kernel [H, d, D].


def test_the_inputs_of_convolutions_are_channels():
    growths = find_growths(build_convolutions, 8, 2)

    assert growths[::2] == [(1.0, 4.0), (4.0, 4.0)]


@pytest.mark.parametrize(
    ("inputs", "outputs", "initial", "adam_rate", "sgd_rate"),
    [(1.0, 4.0, 1.0, 1.0, 4.0), (4.0, 4.0, 0.5, 0.25, 1.0), (4.0, 1.0, 0.25, 0.25, 0.25)],
    ids=["first", "hidden", "last"],
)
def test_the_factors_are_those_of_the_paper(inputs, outputs, initial, adam_rate, sgd_rate):
    growth = width_transfer.Growth(inputs, outputs)

    assert growth.initial_scale == initial
    assert growth.adam_rate == adam_rate
    assert growth.sgd_rate == sgd_rate


def test_weights_start_at_the_size_that_the_base_width_tells():
    keras.utils.set_random_seed(1)
    model, base = build_dense(512), build_dense(128)

    width_transfer.apply(model, base, adam.Adam(0.01))

    def measure(one, layer):
        return np.sqrt(np.mean(np.square(one.layers[layer].kernel.numpy())))

    expected = [1.0, 0.5, 0.5, 0.25]
    found = [measure(model, layer) / measure(base, layer) for layer in range(4)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert not np.any(model.layers[0].bias.numpy())


@pytest.mark.parametrize("name", _OPTIMIZERS)
@pytest.mark.parametrize("mode", [modes.KernelMode.NATIVE, modes.KernelMode.TENSORFLOW])
def test_a_variable_with_a_factor_is_trained_as_if_that_were_its_learning_rate(name, mode):
    gradient = tf.constant([1.0, -2.0])

    def train(optimizer, factor):
        weights = [keras.Variable([1.0, 2.0]), keras.Variable([1.0, 2.0])]
        optimizer.build(weights)
        optimizer.set_rate_factors([(weights[1], factor)])
        for _ in range(3):
            with selection.training_scope(mode):
                optimizer.apply([gradient, gradient], weights)
        return [weight.numpy() for weight in weights]

    plain = train(_OPTIMIZERS[name](), 1.0)
    slower = _OPTIMIZERS[name]()
    slower.learning_rate = float(slower.learning_rate) / 4

    first, second = train(_OPTIMIZERS[name](), 0.25)

    np.testing.assert_array_equal(first, plain[0])
    np.testing.assert_array_equal(second, train(slower, 1.0)[0])


@pytest.mark.parametrize("amsgrad", [False, True])
def test_decoupled_decay_keeps_the_rate_of_all(amsgrad):
    weight = keras.Variable([1.0])
    optimizer = adam.AdamWeightDecay(0.1, weight_decay_rate=0.5, amsgrad=amsgrad)
    optimizer.build([weight])
    optimizer.set_rate_factors([(weight, 0.25)])

    optimizer.apply([tf.zeros([1])], [weight])

    assert weight.numpy() == pytest.approx([0.95])


def test_factors_are_no_part_of_checkpoints(tmp_path):
    def save(factors, name):
        weight = keras.Variable([1.0])
        optimizer = adam.Adam(0.1)
        optimizer.build([weight])
        optimizer.set_rate_factors([(weight, factor) for factor in factors])
        path = tf.train.Checkpoint(optimizer=optimizer).save(tmp_path / name)
        return tf.train.list_variables(path)

    assert save([0.25], "with") == save([], "without")


def learn(model, optimizer):
    """Returns by how much four steps change the outputs, on average."""
    generator = np.random.default_rng(1)
    inputs = generator.normal(size=(16, *model.input_shape[1:])).astype("float32")
    labels = generator.integers(0, 4, 16)
    before, variables = model(inputs), model.trainable_variables
    optimizer.build(variables)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            losses = keras.losses.sparse_categorical_crossentropy(labels, model(inputs), True)
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        optimizer.apply(gradients, variables)

    for _ in range(4):
        step()
    return float(tf.reduce_mean(abs(model(inputs) - before)))


@pytest.mark.slow
@pytest.mark.parametrize(("build", "name"), [(build_attention, "adam"), (build_dense, "sgd")])
def test_outputs_change_by_as_much_at_every_width(build, name):
    def measure(width, *, has_base):
        keras.utils.set_random_seed(1)
        model, optimizer = build(width), _OPTIMIZERS[name]()
        if has_base:
            width_transfer.apply(model, build(16), optimizer)
        return learn(model, optimizer)

    base, wide = measure(16, has_base=False), measure(256, has_base=True)

    assert 0.5 < wide / base < 2.0
    assert measure(256, has_base=False) / base > 2.5


@pytest.mark.parametrize(
    ("base", "optimizer", "message"),
    [
        (build_dense(8), lamb.LAMB(), "optimizer LAMB, which has no rule"),
        (build_dense(8), keras.optimizers.Adam(), "optimizer Adam, which has no rule"),
        (build_dense(8, num_layers=2), adam.Adam(), "has 6 weights, and 8 here"),
        (build_dense(32), adam.Adam(), r"\[8, 32\] there, which is wider"),
        (build_dense(16), adam.Adam(), "no weight is smaller"),
    ],
)
def test_what_can_not_be_transferred_is_one_clear_error(base, optimizer, message):
    with pytest.raises(errors.ConfigError, match=message):
        width_transfer.apply(build_dense(16), base, optimizer)


def test_heads_must_keep_their_size():
    wide, narrow = build_attention(16, head_size=8), build_attention(8, head_size=4)

    with pytest.raises(errors.ConfigError, match=r"sizes \[4\] there, and \[8\] here"):
        width_transfer.apply(wide, narrow, adam.Adam())


def test_a_kernel_of_unknown_order_is_refused():
    def build(width):
        inputs = keras.Input([6, 2])
        x = keras.layers.SeparableConv1D(width, 3)(inputs)
        return keras.Model(inputs, keras.layers.SeparableConv1D(width, 3)(x))

    with pytest.raises(errors.ConfigError, match="not known which sizes"):
        width_transfer.apply(build(16), build(8), adam.Adam())
