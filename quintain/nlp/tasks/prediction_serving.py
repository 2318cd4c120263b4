"""Trained models of sentence prediction: text in, classes or numbers out.

Shapes:
    B  texts in the batch
    F  text fields of an example
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.core import base_task, export_base
from quintain.nlp.data import sentence_prediction_dataloader
from quintain.settings import config_definitions as cfg


class TextPrediction(export_base.ExportModule):
    """Classifies texts or pairs of texts, or gives them a number."""

    kind: ClassVar = "sentence_prediction"

    function_keys: ClassVar = {
        "serve": tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY,
        "serve_single": "serve_single",
    }

    def __init__(self, task: Any, model: keras.Model) -> None:
        """Takes the parts of a `BertClassifier`'s task.

        Raises:
            ConfigError: If the task's data are no text.
        """
        super().__init__(task.task_config, model)
        self.processor = task.text_processor
        self.predictor = task.build_predictor(model)
        self.num_fields = task.num_fields
        self.labels = task.class_names

    @override
    @tf.function
    def serve(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Predicts strings `[B]`, or `[B, F]` of several fields.

        Returns:
            What `SentencePredictionTask.build_predictor` gives.
        """
        return self.predictor(inputs)

    @tf.function
    def serve_single(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Predicts one string, or one example `[F]` of several fields."""
        return {name: value[0] for name, value in self.predictor(inputs[tf.newaxis]).items()}

    @override
    def get_inference_signatures(self, function_keys: dict[str, str]) -> Mapping[str, Any]:
        example = [] if self.num_fields == 1 else [self.num_fields]
        shapes = {"serve": [None, *example], "serve_single": example}
        return {
            signature: self.find_function(name).get_concrete_function(
                tf.TensorSpec(shapes[name], tf.string, name="inputs")
            )
            for name, signature in function_keys.items()
        }

    @override
    def describe(self) -> dict[str, Any]:
        labels = None if self.labels is None else list(self.labels)
        return {"num_fields": self.num_fields, "labels": labels}


class ServesPredictions(base_task.Task):
    """Serving interface of sentence prediction."""

    @classmethod
    @override
    def list_next_commands(cls, params: cfg.TaskConfig, model_dir: str) -> dict[str, str]:
        """Returns the commands that predict the class, or the number, of texts."""
        del params
        return {
            "predict": f"quintain predict --model_dir={model_dir} < texts.txt",
            "serve": f"quintain serve-model --model_dir={model_dir}",
        }

    @override
    def build_export_module(self, model: keras.Model) -> export_base.ExportModule:
        """Returns the prediction of text; of a run on records that of their token ids."""
        kind = sentence_prediction_dataloader.SentencePredictionTextDataConfig
        if isinstance(self.task_config.train_data, kind):
            return TextPrediction(self, model)
        return super().build_export_module(model)
