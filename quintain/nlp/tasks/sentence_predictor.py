"""Predicts with a trained classifier or regressor: from text in the graph, or from data sets.

Shapes:
    B  examples in the batch
    C  classes; 1 for a number
    F  text fields
    N  examples of a data set
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from quintain.nlp.data import bert_inputs
from quintain.settings import config_definitions as cfg

Predictor = Callable[[tf.Tensor], dict[str, tf.Tensor]]


def build(
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
        A function of `[B, F]` or, of one field, `[B]` strings that gives `logits` `[B, C]` float32;
        of classes also `probabilities` `[B, C]` float32, `classes` `[B]` int32 and `labels` `[B]`
        string; of a regression `scores` `[B]` float32.
    """

    @tf.function(input_signature=[tf.TensorSpec(None, tf.string)])
    def predict_texts(texts: tf.Tensor) -> dict[str, tf.Tensor]:
        fields = tf.unstack(tf.reshape(texts, [-1, num_fields]), num_fields, axis=1)  # F of [B]
        logits = model(processor(fields), training=False)  # [B, C]
        if label_names is None:
            return {"logits": logits, "scores": tf.reshape(logits, [-1])}
        classes = tf.argmax(logits, axis=1, output_type=tf.int32)  # [B]
        return {
            "logits": logits,
            "probabilities": tf.nn.softmax(logits),
            "classes": classes,
            "labels": tf.gather(tf.constant(list(label_names)), classes),
        }

    predictor: Predictor = predict_texts
    return predictor


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
    """
    outputs = _predict_all(task, params, model)
    if params_aug is not None:
        others = _predict_all(task, params_aug, model)
        outputs = (1.0 - test_time_aug_wgt) * outputs + test_time_aug_wgt * others
    if task.is_regression:
        return [float(value) for value in outputs.reshape(-1)]
    return [int(name) for name in np.argmax(outputs, axis=1)]


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
