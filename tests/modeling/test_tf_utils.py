import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.modeling import activations, tf_utils


def test_shapes_are_numbers_where_they_are_known():
    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def double_rows(tensor):
        rows, columns = tf_utils.get_shape_list(tensor, expected_rank=2)
        assert columns == 3
        return rows * 2

    assert int(double_rows(tf.zeros([4, 3]))) == 8
    assert tf_utils.get_shape_list(tf.zeros([2, 5])) == [2, 5]


@pytest.mark.parametrize("expected", [2, [1, 2], (2,)])
def test_a_right_rank_passes(expected):
    tf_utils.assert_rank(tf.zeros([2, 3]), expected)


@pytest.mark.parametrize("expected", [1, [1, 3]])
def test_a_wrong_rank_names_the_tensor(expected):
    with pytest.raises(ValueError, match=r"mask: got rank 2 \(shape \(2, 3\)\)"):
        tf_utils.assert_rank(tf.zeros([2, 3]), expected, name="mask")


def test_the_mean_of_nothing_is_zero():
    assert float(tf_utils.safe_mean(tf.zeros([0]))) == 0.0
    assert float(tf_utils.safe_mean(tf.constant([1.0, 2.0, 6.0]))) == 3.0


def test_outside_of_a_replica_there_is_no_replica():
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    with strategy.scope():
        with pytest.raises(RuntimeError, match="there is no replica here"):
            tf_utils.get_replica_id()
        with pytest.raises(RuntimeError, match="there is no replica here"):
            tf_utils.cross_replica_concat(tf.zeros([1]), axis=0)


def test_tensors_of_unknown_batch_size_can_not_be_joined():
    @tf.function(input_signature=[tf.TensorSpec([None])])
    def join(tensor):
        return tf_utils.cross_replica_concat(tensor, axis=0)

    with pytest.raises(RuntimeError, match="first dimension is unknown"):
        join(tf.zeros([2]))


X = np.array([-4.0, -1.0, 0.0, 0.5, 2.0, 7.0], np.float32)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gelu", 0.5 * X * (1 + np.tanh(np.sqrt(2 / np.pi) * (X + 0.044715 * X**3)))),
        ("simple_swish", X / (1 + np.exp(-X))),
        ("hard_swish", X * np.clip(X + 3, 0, 6) / 6),
        ("hard_sigmoid", np.clip(X + 3, 0, 6) * 0.16667),
        ("relu6", np.clip(X, 0, 6)),
        ("identity", X),
        ("mish", X * np.tanh(np.log1p(np.exp(X)))),
        ("RELU", np.maximum(X, 0)),
        (None, X),
    ],
)
def test_activations_have_their_closed_form(name, expected):
    activation = tf_utils.get_activation(name)

    np.testing.assert_allclose(activation(tf.constant(X)), expected, rtol=1e-5, atol=1e-6)


def test_activations_can_be_layers():
    layer = tf_utils.get_activation("leaky_relu", use_keras_layer=True, alpha=0.1)

    assert isinstance(layer, keras.layers.Activation)
    np.testing.assert_allclose(layer(tf.constant(X)), np.where(X > 0, X, 0.1 * X), rtol=1e-6)
    assert isinstance(tf_utils.get_activation("mish", use_keras_layer=True), keras.layers.Layer)


def test_activations_of_the_package_can_be_stored():
    layer = keras.layers.Dense(2, activation=tf_utils.get_activation("mish"))

    again = keras.layers.deserialize(tf_utils.serialize_layer(layer))

    assert again.activation is activations.mish


def test_an_unknown_activation_is_an_error():
    with pytest.raises(ValueError, match="rellu"):
        tf_utils.get_activation("rellu")


def test_a_cloned_initializer_is_another_of_the_same_kind():
    initializer = keras.initializers.TruncatedNormal(stddev=0.5)

    clone = tf_utils.clone_initializer(initializer)

    assert clone is not initializer
    assert isinstance(clone, keras.initializers.TruncatedNormal)
    assert clone.stddev == 0.5
    assert not np.array_equal(clone([3]), initializer([3]))
    assert tf_utils.clone_initializer("zeros") == "zeros"


def test_keras_objects_come_back_from_their_configs():
    config = tf_utils.serialize_initializer(keras.initializers.Constant(3.0))
    regularizer = tf_utils.serialize_regularizer(keras.regularizers.L2(0.1))
    constraint = tf_utils.serialize_constraint(keras.constraints.NonNeg())

    assert tf_utils.deserialize_keras_object(config).value == 3.0
    assert keras.regularizers.deserialize(regularizer).l2 == pytest.approx(0.1)
    assert isinstance(keras.constraints.deserialize(constraint), keras.constraints.NonNeg)
    assert tf_utils.serialize_activation(keras.activations.relu) == "relu"


def test_classes_are_found_by_name_when_they_are_given():
    class Scale(keras.layers.Layer):
        pass

    config = tf_utils.serialize_keras_object(Scale(name="mine"))

    layer = tf_utils.deserialize_keras_object(config, module_objects={"Scale": Scale})

    assert isinstance(layer, Scale)
    assert layer.name == "mine"


def test_inputs_are_packed_with_a_place_for_each_that_is_missing():
    packed = tf_utils.pack_inputs([tf.constant([1.0]), None])

    unpacked = tf_utils.unpack_inputs(packed)

    assert [tf_utils.is_special_none_tensor(tensor) for tensor in packed] == [False, True]
    assert (unpacked[0].numpy().tolist(), unpacked[1]) == ([1.0], None)
    assert tf_utils.unpack_inputs([tf.constant(2.0)]).numpy() == 2.0
