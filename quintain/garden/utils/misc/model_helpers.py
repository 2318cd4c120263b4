"""Helper functions of training programs: thresholds, synthetic data, clean directories."""

import logging
import numbers
from typing import Any

import tensorflow as tf

from quintain.files import file_io

logger = logging.getLogger(__name__)


def past_stop_threshold(stop_threshold: float | None, eval_metric: float) -> bool:
    """Returns whether a metric has reached a threshold.

    Args:
        stop_threshold: The threshold; None is never reached.
        eval_metric: The metric.

    Raises:
        ValueError: If one of them is no number.
    """
    if stop_threshold is None:
        return False
    for name, value in (("stop_threshold", stop_threshold), ("eval_metric", eval_metric)):
        if not isinstance(value, numbers.Number):
            message = f"{name}: got {value!r}, expected a number."
            raise ValueError(message)  # noqa: TRY004 - what programs catch
    if eval_metric < stop_threshold:
        return False
    logger.info("The metric %s has reached the threshold %s.", eval_metric, stop_threshold)
    return True


def generate_synthetic_data(
    input_shape: Any,
    input_value: Any = 0,
    input_dtype: Any = None,
    label_shape: Any = None,
    label_value: Any = 0,
    label_dtype: Any = None,
) -> tf.data.Dataset:
    """Returns a dataset that gives one constant element without end.

    Args:
        input_shape: Shape of the input, `tf.TensorShape`, or a structure of them.
        input_value: Its value.
        input_dtype: Its dtype; None takes that of the value.
        label_shape: Shape of the label, or a structure of them; None gives inputs only.
        label_value: Its value.
        label_dtype: Its dtype; None takes that of the value.
    """

    def fill(shapes: Any, value: Any, dtype: Any) -> Any:
        return tf.nest.map_structure(lambda shape: tf.constant(value, dtype, shape), shapes)

    element = fill(input_shape, input_value, input_dtype)
    if label_shape:
        element = (element, fill(label_shape, label_value, label_dtype))
    return tf.data.Dataset.from_tensors(element).repeat()


def apply_clean(flags_obj: Any) -> None:
    """Removes `flags_obj.model_dir` if `flags_obj.clean` says so.

    Args:
        flags_obj: The flags of a program.
    """
    if flags_obj.clean and file_io.exists(flags_obj.model_dir):
        logger.info("--clean: removing %s.", flags_obj.model_dir)
        file_io.rmtree(flags_obj.model_dir)
