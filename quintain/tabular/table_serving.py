"""Trained models of rows: cells in, classes or numbers out.

Shapes:
    B  rows in the batch
    L  classes
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.core import export_base
from quintain.tabular import columns as columns_lib
from quintain.tabular import table_configs


class TablePrediction(export_base.ExportModule):
    """Predicts the target of rows, whose cells are inputs of their own."""

    kind: ClassVar = "tabular"

    def __init__(
        self,
        config: table_configs.TabularConfig,
        model: keras.Model,
        columns: columns_lib.Columns,
    ) -> None:
        """Takes the parts of a `TabularTask`."""
        super().__init__(config, model)
        self._columns = columns
        self._names = columns.name_inputs()
        self._ids = {column.name: _build_ids(column) for column in columns.categories}

    @override
    @tf.function
    def serve(self, **cells: tf.Tensor) -> dict[str, tf.Tensor]:
        """Predicts rows from numbers `[B]` float32 and texts `[B]`, by the names of the inputs.

        NaN and the empty text are missing values.

        Returns:
            `prediction` `[B]` float32; or of classes `label` `[B]` string, `score` `[B]`, its
            probability, and `probabilities` `[B, L]` in the order of the classes.
        """
        inputs = {}
        if numbers := self._columns.numbers:
            found = [cells[self._names[column.name]] for column in numbers]
            inputs["numbers"] = tf.stack(found, axis=1)
        if categories := self._columns.categories:
            ids = [self._ids[one.name].lookup(cells[self._names[one.name]]) for one in categories]
            inputs["categories"] = tf.stack(ids, axis=1)
        outputs = self.model(inputs, training=False)
        target = self._columns.target
        if target.kind == "number":
            return {"prediction": outputs[:, 0]}
        probabilities = tf.nn.softmax(outputs)  # [B, L]
        return {
            "label": tf.gather(tf.constant(target.values), tf.argmax(probabilities, axis=1)),
            "score": tf.reduce_max(probabilities, axis=1),
            "probabilities": probabilities,
        }

    @override
    def get_inference_signatures(self, function_keys: dict[str, str]) -> Mapping[str, Any]:
        specs = {}
        for column in self._columns.inputs:
            name = self._names[column.name]
            dtype = tf.float32 if column.kind == "number" else tf.string
            specs[name] = tf.TensorSpec([None], dtype, name=name)
        return {
            signature: self.find_function(name).get_concrete_function(**specs)
            for name, signature in function_keys.items()
        }

    @override
    def describe(self) -> dict[str, Any]:
        columns = self._columns
        return {
            "labels": list(columns.target.values) or None,
            "input_names": self._names,
            "nullable": [column.name for column in columns.inputs if column.has_missing],
            "missing_values": list(self.params.missing_values),
            "ignored": [columns.target.name, *columns.left_out, *self.params.ignored],
            "example": {
                column.name: round(column.mean, 3) if column.kind == "number" else column.values[0]
                for column in columns.inputs
            },
        }


def _build_ids(column: columns_lib.Column) -> tf.lookup.StaticHashTable:
    """Returns the ids of a column's categories, int32 by text."""
    first = columns_lib.FIRST
    ids = [columns_lib.MISSING, *range(first, first + len(column.values))]
    known = tf.lookup.KeyValueTensorInitializer(["", *column.values], ids, tf.string, tf.int32)
    return tf.lookup.StaticHashTable(known, columns_lib.UNKNOWN)
