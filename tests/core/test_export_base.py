"""Exports of tiny models, loaded again and served."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.core import export_base

INPUTS = np.ones([2, 4], np.float32)


class ServedModule(export_base.ExportModule):
    @tf.function
    def serve(self, inputs):
        states = inputs if self.preprocessor is None else self.preprocessor(inputs=inputs)
        states = self.inference_step(states)
        return {"outputs": states if self.postprocessor is None else self.postprocessor(states)}

    def get_inference_signatures(self, function_keys):
        spec = tf.TensorSpec([None, None], tf.float32, name="inputs")
        return {name: self.serve.get_concrete_function(spec) for name in function_keys.values()}


def build_model(seed=1):
    keras.utils.set_random_seed(seed)
    return keras.Sequential([keras.Input([4]), keras.layers.Dense(2), keras.layers.Dropout(0.5)])


def serve(directory, signature="serving_default"):
    return tf.saved_model.load(directory).signatures[signature](tf.constant(INPUTS))["outputs"]


def test_single_function_is_served_by_default_from_a_directory_named_by_the_time(tmp_path):
    model = build_model()

    directory = export_base.export(ServedModule(None, model), ["serve"], str(tmp_path))

    assert os.path.dirname(directory) == str(tmp_path)
    assert os.path.basename(directory).isdigit()
    np.testing.assert_allclose(serve(directory), model(INPUTS), rtol=1e-6)


def test_mapping_names_the_signatures(tmp_path):
    module = ServedModule(None, build_model())

    directory = export_base.export(
        module, {"serve": "translate"}, str(tmp_path / "export"), timestamped=False
    )

    assert directory == str(tmp_path / "export")
    assert list(tf.saved_model.load(directory).signatures) == ["translate"]


@pytest.mark.parametrize("function_keys", [[], ["serve", "other"]])
def test_list_of_no_or_several_functions_is_an_error(tmp_path, function_keys):
    with pytest.raises(ValueError, match="expected a list of a single function"):
        export_base.export(ServedModule(None, build_model()), function_keys, str(tmp_path))


@pytest.mark.parametrize("as_directory", [False, True])
def test_weights_come_from_a_checkpoint(tmp_path, as_directory):
    trained = build_model(seed=2)
    path = tf.train.Checkpoint(model=trained, global_step=tf.Variable(3)).save(
        str(tmp_path / "ckpt")
    )

    directory = export_base.export(
        ServedModule(None, build_model()),
        ["serve"],
        str(tmp_path / "export"),
        checkpoint_path=str(tmp_path) if as_directory else path,
    )

    np.testing.assert_allclose(serve(directory), trained(INPUTS), rtol=1e-6)


def test_checkpoint_object_says_what_is_read(tmp_path):
    trained, model = build_model(seed=2), build_model()
    path = tf.train.Checkpoint(encoder=trained).save(str(tmp_path / "ckpt"))

    directory = export_base.export(
        ServedModule(None, model),
        ["serve"],
        str(tmp_path / "export"),
        checkpoint_path=path,
        checkpoint=tf.train.Checkpoint(encoder=model),
    )

    np.testing.assert_allclose(serve(directory), trained(INPUTS), rtol=1e-6)


def test_checkpoint_that_does_not_fit_is_an_error(tmp_path):
    other = keras.Sequential([keras.Input([4]), keras.layers.Dense(3)])
    path = tf.train.Checkpoint(model=other).save(str(tmp_path / "ckpt"))

    with pytest.raises(errors.CheckpointError, match="does not fit"):
        export_base.export(
            ServedModule(None, build_model()), ["serve"], str(tmp_path), checkpoint_path=path
        )


def test_directory_without_a_checkpoint_is_an_error(tmp_path):
    with pytest.raises(errors.CheckpointError, match="a directory without a checkpoint"):
        export_base.export(
            ServedModule(None, build_model()),
            ["serve"],
            str(tmp_path),
            checkpoint_path=str(tmp_path),
        )


def test_layer_and_own_inference_step_are_exported(tmp_path):
    layer = keras.layers.Dense(2)
    layer.build([None, 4])
    modules = [
        ServedModule(None, layer),
        ServedModule(
            None, layer, inference_step=lambda inputs, model: tf.nn.softmax(model(inputs))
        ),
    ]

    plain, softmax = (
        serve(export_base.export(module, ["serve"], str(tmp_path / str(i)), timestamped=False))
        for i, module in enumerate(modules)
    )

    np.testing.assert_allclose(plain, layer(INPUTS), rtol=1e-6)
    np.testing.assert_allclose(softmax, tf.nn.softmax(plain), rtol=1e-6)


def test_plain_modules_are_called_without_training():
    class Model(tf.Module):
        def __call__(self, inputs, training):
            return -inputs if training else inputs + 1.0

    class Doubled(tf.Module):
        def __call__(self, inputs):
            return 2.0 * inputs

    module = ServedModule(
        None, Model(), preprocessor=lambda inputs: inputs + 10.0, postprocessor=Doubled()
    )

    assert module.serve(tf.zeros([1, 1]))["outputs"].numpy().tolist() == [[22.0]]


def test_taken_names_are_tried_again_until_it_is_hopeless(tmp_path, monkeypatch, replace_sleep):
    slept = []
    monkeypatch.setattr(export_base.time, "time", lambda: 1000.4 + len(slept))
    replace_sleep(export_base, slept.append)
    for name in ("1000", "1001"):
        (tmp_path / name).mkdir()

    assert export_base.get_timestamped_export_dir(str(tmp_path)) == str(tmp_path / "1002")
    assert slept == [1.0, 1.0]
    monkeypatch.setattr(export_base.time, "time", lambda: 1000.0)
    with pytest.raises(RuntimeError, match="10 attempts"):
        export_base.get_timestamped_export_dir(str(tmp_path))
