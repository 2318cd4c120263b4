"""Features of every type."""

import numpy as np
import pytest
import tensorflow as tf

from quintain.garden.core import tf_example_builder


def build():
    return tf_example_builder.TfExampleBuilder()


def parse(builder, **features):
    return tf.io.parse_single_example(builder.serialized_example, features)


@pytest.mark.parametrize("value", ["ä", "ä".encode(), ["ä"], np.array(["ä".encode()])])
def test_text_and_bytes_are_bytes(value):
    parsed = parse(build().add_bytes_feature("a", value), a=tf.io.FixedLenFeature([1], tf.string))

    assert parsed["a"].numpy().tolist() == ["ä".encode()]


def test_numbers_keep_their_type():
    builder = (
        build()
        .add_ints_feature("int", 3)
        .add_ints_feature("ints", np.array([1, 2]))
        .add_floats_feature("float", 0.5)
        .add_floats_feature("floats", (0.25, 1.0))
    )

    features = builder.example.features.feature
    assert list(features["int"].int64_list.value) == [3]
    assert list(features["ints"].int64_list.value) == [1, 2]
    assert list(features["float"].float_list.value) == [0.5]
    assert list(features["floats"].float_list.value) == [0.25, 1.0]


def test_later_features_replace_earlier_ones_of_their_name():
    other = tf.train.Feature(int64_list=tf.train.Int64List(value=[9]))

    builder = (
        build().add_ints_feature("a", 1).add_feature("a", other).add_feature_dict({"b": other})
    )

    assert builder.example == (build().add_ints_feature("a", 9).add_ints_feature("b", 9).example)


def test_builder_can_start_again_or_go_on_with_another_example():
    example = build().add_ints_feature("a", 1).example

    assert build().set(example).example == example
    assert build().set(example).reset().example == tf.train.Example()
