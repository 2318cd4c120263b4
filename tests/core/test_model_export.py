from typing import ClassVar

import keras
import pytest
import tensorflow as tf

from quintain import errors
from quintain.core import base_task, export_base, model_export
from quintain.settings import config_definitions as cfg


class PlantTask(base_task.Task):
    """Its batches are mappings with the label among the features."""

    batch: ClassVar = {
        "sizes": tf.zeros([3, 2]),
        "kind": tf.constant(["oak"] * 3),
        "label": tf.zeros([3], tf.int32),
    }

    def build_inputs(self, params, input_context=None):
        return tf.data.Dataset.from_tensors(self.batch)

    def build_model(self):
        sizes = keras.Input([2], name="sizes")
        return keras.Model({"sizes": sizes}, {"height": keras.layers.Dense(1)(sizes)[:, 0]})

    def inference_step(self, inputs, model):
        return {**model({"sizes": inputs["sizes"]}), "kind": tf.strings.upper(inputs["kind"])}


def build_signature(module):
    keys = dict(module.function_keys)
    return module.get_inference_signatures(keys)["serving_default"]


def test_a_signature_is_what_the_outputs_depend_on(tmp_path):
    task = PlantTask(cfg.TaskConfig())
    module = task.build_export_module(task.build_model())

    directory = export_base.export(
        module, module.function_keys, str(tmp_path / "export"), timestamped=False
    )

    serve = tf.saved_model.load(directory).signatures["serving_default"]
    specs = serve.structured_input_signature[1]
    assert {name: spec.shape.as_list() for name, spec in specs.items()} == {
        "sizes": [None, 2],
        "kind": [None],
    }
    found = serve(sizes=tf.ones([5, 2]), kind=tf.constant(["elm"] * 5))
    assert found["kind"].numpy().tolist() == [b"ELM"] * 5
    expected = module.model({"sizes": tf.ones([5, 2])})["height"]
    assert found["height"].numpy() == pytest.approx(expected.numpy())


def test_several_inputs_and_outputs_have_the_names_of_the_model():
    class PairTask(PlantTask):
        batch = ((tf.zeros([3, 2]), tf.zeros([3, 1])), tf.zeros([3]))
        inference_step = base_task.Task.inference_step

        def build_model(self):
            parts = [keras.Input([2], name="left"), keras.Input([1], name="right")]
            layers = [keras.layers.Dense(1, name=name) for name in ("near", "far")]
            return keras.Model(
                parts, [layer(part) for layer, part in zip(layers, parts, strict=True)]
            )

    task = PairTask(cfg.TaskConfig())

    signature = build_signature(task.build_export_module(task.build_model()))

    assert list(signature.structured_input_signature[1]) == ["left", "right"]
    assert sorted(signature.structured_outputs) == ["far", "near"]


def test_a_functional_model_without_its_data_says_what_it_takes():
    class LostTask(PlantTask):
        inference_step = base_task.Task.inference_step

        def build_inputs(self, params, input_context=None):
            raise errors.ConfigError("input_path: no file 'gone'.")

    task = LostTask(cfg.TaskConfig())
    model = task.build_model()

    assert list(task.build_export_module(model).input_spec) == ["sizes"]
    with pytest.raises(errors.ConfigError, match=r"no file 'gone'.\nOverride `build_export_module"):
        task.build_export_module(OwnModel())


class OwnModel(keras.Model):
    def call(self, inputs):
        return inputs["sizes"]


def test_a_model_that_takes_something_else_is_an_error_of_the_task():
    class OddTask(PlantTask):
        def inference_step(self, inputs, model):
            return model(inputs["length"])

    task = OddTask(cfg.TaskConfig())

    with pytest.raises(errors.ConfigError, match=r"OddTask: the model can't be called .*'length'"):
        task.build_export_module(task.build_model())


def test_ragged_data_need_a_method_of_the_task():
    spec = {"ids": tf.RaggedTensorSpec([None, None], tf.int32)}

    with pytest.raises(errors.ConfigError, match="which no signature can take"):
        model_export.derive(PlantTask(cfg.TaskConfig()), OwnModel(), spec)
