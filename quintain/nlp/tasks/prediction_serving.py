"""Trained models of sentence prediction: text in, classes or numbers out.

Shapes:
    B  texts in the batch
    C  classes; 1 for a number
    F  text fields of an example
    N  examples of a data set
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import override

from quintain.core import base_task, export_base, text_prediction
from quintain.nlp.data import bert_inputs, sentence_prediction_dataloader
from quintain.settings import config_definitions as cfg

Predictor = Callable[[tf.Tensor], dict[str, tf.Tensor]]


class ServesPredictions(base_task.Task):
    """Serving interface of sentence prediction."""

    @classmethod
    @override
    def list_next_commands(cls, params: cfg.TaskConfig, model_dir: str) -> dict[str, str]:
        """Returns the commands that predict the class, or the number, of texts."""
        del params
        return {
            "predict": f"quintain predict --model-dir={model_dir} < texts.txt",
            "serve": f"quintain serve-model --model-dir={model_dir}",
        }

    @override
    def build_export_module(self, model: keras.Model) -> export_base.ExportModule:
        """Returns the prediction of text; of a run on records that of their token ids."""
        kind = sentence_prediction_dataloader.SentencePredictionTextDataConfig
        if isinstance(self.task_config.train_data, kind):
            return build_text_prediction(self, model)
        return super().build_export_module(model)


def build_text_prediction(task: Any, model: keras.Model) -> text_prediction.TextPrediction:
    """Returns what serves a `BertClassifier` of a task.

    Raises:
        ConfigError: If the task's data are no text.
    """
    return text_prediction.TextPrediction(
        task.task_config,
        model,
        task.build_predictor(model),
        preprocessor=task.text_processor,
        num_fields=task.num_fields,
        labels=task.class_names,
    )


def build_predictor(
    model: keras.Model,
    processor: bert_inputs.TextProcessor,
    *,
    num_fields: int,
    label_names: Sequence[str] | None,
) -> Predictor:
    """Returns a function of the graph that maps a batch of text to logits and labels.

    Args:
        model: A `BertClassifier`.
        processor: What turned texts into the inputs of the model in training.
        num_fields: F.
        label_names: Names of the classes, in the order of their ids; None for regression.

    Returns:
        A function of `[B, F]` or, of one field, `[B]` strings. It gives what
        `text_prediction.describe_classes` does; of a regression `logits` `[B, 1]` and `scores`
        `[B]` float32.
    """

    @tf.function(input_signature=[tf.TensorSpec(None, tf.string)])
    def predict_texts(texts: tf.Tensor) -> dict[str, tf.Tensor]:
        fields = tf.unstack(tf.reshape(texts, [-1, num_fields]), num_fields, axis=1)  # F of [B]
        logits = model(processor(fields), training=False)  # [B, C]
        if label_names is None:
            return {"logits": logits, "scores": tf.reshape(logits, [-1])}
        return text_prediction.describe_classes(logits, label_names)

    return predict_texts


def predict(
    task: Any,
    params: cfg.DataConfig,
    model: keras.Model,
    params_aug: cfg.DataConfig | None = None,
    test_time_aug_wgt: float = 0.3,
) -> list[Any]:
    """Predicts a class id, or a number, for every example of a data set.

    Args:
        task: A `SentencePredictionTask`.
        params: The data; `include_example_id` gives the order, otherwise that of the data does.
        model: A model of the task.
        params_aug: The same examples in other words, whose outputs are mixed in.
        test_time_aug_wgt: Weight of their outputs, in `[0, 1]`.

    Returns:
        NumPy scalars: int64 ids, or float32 numbers.
    """
    outputs = _predict_all(task, params, model)
    if params_aug is not None:
        others = _predict_all(task, params_aug, model)
        outputs = (1.0 - test_time_aug_wgt) * outputs + test_time_aug_wgt * others
    return list(outputs.reshape(-1) if task.is_regression else np.argmax(outputs, axis=1))


def _predict_all(task: Any, params: cfg.DataConfig, model: keras.Model) -> np.ndarray:
    """Returns the logits `[N, C]` of all examples in their order."""
    step = tf.function(lambda batch: task.inference_step(batch, model), reduce_retracing=True)
    logits, ids = [], []
    for batch in task.build_inputs(params.replace(is_training=False)):
        example_ids = batch.pop("example_id", None)
        logits.append(step(batch).numpy())
        if example_ids is not None:
            ids.append(example_ids.numpy().reshape(-1))
    stacked = np.concatenate(logits, axis=0)
    return stacked[np.argsort(np.concatenate(ids), kind="stable")] if ids else stacked
