"""The variables of a Keras model and its optimizer in a checkpoint of a trial."""

import math
import os
from collections.abc import Mapping

import tensorflow as tf

from quintain import errors
from quintain.orbit import literal_paths


def read(prefix: str, values: Mapping[str, list[tf.Variable]]) -> None:
    """Assigns what a checkpoint holds.

    Raises:
        CheckpointError: If numbers or shapes of variables differ.
    """
    if not os.path.exists(f"{prefix}.index"):
        raise errors.CheckpointError(f"{prefix}.index: there is no such file.")
    reader = tf.train.load_checkpoint(literal_paths.checkpoint(prefix))
    shapes = reader.get_variable_to_shape_map()
    for part, variables in values.items():
        stored = sorted(name for name in shapes if name.startswith(f"{part}/"))
        if len(stored) != len(variables):
            raise errors.CheckpointError(
                f"{prefix}: it has {len(stored)} variables of the {part}, the trial "
                f"{len(variables)}. Is the model another one than when it was saved?"
            )
        for number, variable in enumerate(variables):
            shape = shapes[f"{part}/{number}/.ATTRIBUTES/VARIABLE_VALUE"]
            if list(shape) != variable.shape.as_list():
                raise errors.CheckpointError(
                    f"{prefix}: variable {number} of the {part} ({variable.name}) has the shape "
                    f"{shape}, the trial's {variable.shape.as_list()}; "
                    f"{math.prod(shape)} values do not fit."
                )
    status = tf.train.Checkpoint(**values).read(literal_paths.checkpoint(prefix))
    status.assert_existing_objects_matched().expect_partial()
