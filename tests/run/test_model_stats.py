"""Sizes of models that can be counted by hand."""

import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.run import model_stats


class TwoLayers(keras.Model):
    def __init__(self):
        super().__init__()
        self.first = keras.layers.Dense(4, name="first")
        self.second = keras.layers.Dense(4, trainable=False, name="second")

    def call(self, inputs):
        return self.second(self.first(inputs))


@pytest.fixture
def model():
    model = TwoLayers()
    model(np.zeros([2, 3], np.float32))
    return model


def test_file_of_parameters_lists_names_shapes_and_the_total(model, tmp_path):
    path = tmp_path / "params.txt"

    model_stats.write_model_params(model, str(path))

    names = [
        f"{model.name}/{layer}/{part}:0"
        for layer in ("first", "second")
        for part in ("kernel", "bias")
    ]
    shapes = [[3, 4], [4], [4, 4], [4]]
    lines = [f"{name} {shape}" for name, shape in zip(names, shapes, strict=True)]
    assert path.read_text().splitlines() == [*lines, "", "Total params: 36"]


def test_file_of_a_module_has_its_own_names(tmp_path):
    module = tf.Module()
    module.weight = tf.Variable(tf.zeros([2, 5]), name="weight")

    model_stats.write_model_params(module, str(tmp_path / "params.txt"))

    assert (tmp_path / "params.txt").read_text() == "weight:0 [2, 5]\n\nTotal params: 10\n"


def test_parameters_are_counted_if_there_are_any_yet(model):
    assert model_stats.try_count_params(model) == 36
    assert model_stats.try_count_params(model, trainable_only=True) == 16
    assert model_stats.try_count_params(TwoLayers()) is None


def test_flops_of_matrix_products_are_two_for_every_weight():
    model = keras.Sequential([keras.Input([8]), keras.layers.Dense(16), keras.layers.Dense(2)])

    # One operation more for each bias.
    assert model_stats.try_count_flops(model) == 2 * 8 * 16 + 16 + 2 * 16 * 2 + 2


def test_weights_are_copied_into_constants_only_where_there_are_loops(monkeypatch):
    freeze, frozen = model_stats.convert_to_constants, []
    name = "convert_variables_to_constants_v2_as_graph"
    original = getattr(freeze, name)
    monkeypatch.setattr(freeze, name, lambda traced: frozen.append(1) or original(traced))
    inputs = keras.Input([5, 3])

    flops = model_stats.try_count_flops(keras.Model(inputs, keras.layers.Dense(4)(inputs)))
    assert (flops, frozen) == (2 * 5 * 3 * 4 + 5 * 4, [])

    flops = model_stats.try_count_flops(keras.Model(inputs, keras.layers.LSTM(4)(inputs)))
    assert flops > 2 * 3 * 4 * 4  # products within the loop
    assert frozen == [1]


def test_flops_of_an_einsum_are_two_for_every_combination_of_indices():
    inputs = keras.Input([5, 6])
    outputs = keras.ops.einsum("...ta,...sa->...ts", inputs, inputs)

    assert model_stats.try_count_flops(keras.Model(inputs, outputs)) == 2 * 5 * 5 * 6


def test_flops_of_a_subclass_need_its_inputs(model, caplog, tmp_path):
    with caplog.at_level(logging.INFO):
        assert model_stats.try_count_flops(model) is None

    assert "give inputs_kwargs" in caplog.text
    spec = tf.TensorSpec([1, 3], tf.float32)
    profile = tmp_path / "profile.txt"
    flops = model_stats.try_count_flops(model, {"inputs": spec}, str(profile))
    assert flops == 2 * 3 * 4 + 4 + 2 * 4 * 4 + 4
    assert "MatMul" in profile.read_text()


def test_size_is_logged_where_it_is_known(caplog):
    model = keras.Sequential([keras.Input([8]), keras.layers.Dense(2, use_bias=False)])

    with caplog.at_level(logging.INFO):
        model_stats.log_size(model)

    assert "Number of weights in the model: 0.000016 million." in caplog.text
    assert "FLOPs of the model for one example: 0.000032 million." in caplog.text
