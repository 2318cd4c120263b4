"""Prediction of a column of a table from the others, and its experiments.

Shapes:
    B  rows in the batch
    A  columns of numbers
    K  columns of categories
    L  classes
"""

import dataclasses
import functools
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import override

from quintain import errors, optimization
from quintain.core import base_task, exp_factory, export_base, task_factory
from quintain.files import whole_files
from quintain.input import row_order
from quintain.modeling import tf_utils
from quintain.settings import config_definitions as cfg
from quintain.tabular import columns as columns_lib
from quintain.tabular import table_configs, table_serving, tables


@task_factory.register_task_cls(table_configs.TabularConfig)
class TabularTask(base_task.Task):
    """Predicts a class or a number from the other cells of a row."""

    metric_labels: ClassVar = {
        "accuracy": base_task.MetricLabel("accuracy", ".1%", best="max"),
        "auc": base_task.MetricLabel("AUC", best="max"),
        "rmse": base_task.MetricLabel("RMSE", best="min"),
        "mae": base_task.MetricLabel("MAE", best="min"),
    }

    _task_config: table_configs.TabularConfig

    @property
    @override
    def task_config(self) -> table_configs.TabularConfig:
        """The config this task was built from."""
        return self._task_config

    @functools.cached_property
    def columns(self) -> columns_lib.Columns:
        """Types of the columns, which the run's directory keeps.

        Raises:
            ConfigError: If a column that the config names does not exist.
            DataError: If the training data can't be used.
        """

        def find() -> dict[str, Any]:
            return dataclasses.asdict(columns_lib.find(self.task_config))

        kept = whole_files.keep_json(self.logging_dir, columns_lib.FILE_NAME, find)
        return columns_lib.Columns.from_dict(kept)

    @property
    def is_regression(self) -> bool:
        """True if the target is a number."""
        return self.columns.target.kind == "number"

    @override
    def build_model(self) -> keras.Model:
        """Builds dense layers over normalised numbers and embedded categories."""
        return _build_network(self.task_config.model, self.columns)

    @override
    def build_inputs(
        self, params: cfg.DataConfig, input_context: tf.distribute.InputContext | None = None
    ) -> tf.data.Dataset:
        """Returns batches of rows.

        Returns:
            The model's inputs by name, and the target `[B]`, float32 or int32.

        Raises:
            ConfigError: If the config contradicts itself.
            DataError: If a cell does not fit; with file and line.
        """
        if not isinstance(params, table_configs.TableDataConfig):
            raise errors.ConfigError(
                f"task: got data of {type(params).__name__}, expected a TableDataConfig."
            )
        table = tables.read(params, self.task_config.missing_values)
        arrays = columns_lib.convert(self.columns, table)
        parts = {name: tf.constant(array) for name, array in arrays.items()}
        target = parts.pop("target")

        @tf.autograph.experimental.do_not_convert
        def gather(rows: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
            inputs = {name: tf.gather(part, rows) for name, part in parts.items()}
            return inputs, tf.gather(target, rows)

        reader = row_order.RowReader(params, len(table), postprocess_fn=gather)
        return reader.read_rows(input_context)

    @override
    def build_losses(
        self, labels: Any, model_outputs: Any, aux_losses: Any | None = None
    ) -> tf.Tensor:
        """Computes the mean loss of a batch: cross entropy in nats, or the squared error.

        An error of a regression is measured in standard deviations of the training data.

        Returns:
            Scalar float32; 0 for a batch without rows.
        """
        if self.is_regression:
            error = (model_outputs[:, 0] - labels) / self.columns.target.deviation  # [B]
            losses = tf.square(error)
        else:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model_outputs)
        loss = tf_utils.safe_mean(losses)
        return loss + tf.add_n(aux_losses) if aux_losses else loss

    @override
    def build_metrics(self, training: bool | None = None) -> list[keras.metrics.Metric]:
        """Returns accuracy, with the area under the ROC curve of two classes; or errors."""
        del training
        if self.is_regression:
            return [
                keras.metrics.RootMeanSquaredError(name="rmse"),
                keras.metrics.MeanAbsoluteError(name="mae"),
            ]
        accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
        is_binary = len(self.columns.target.values) == 2
        return [accuracy, keras.metrics.AUC(name="auc")] if is_binary else [accuracy]

    @override
    def process_metrics(self, metrics: Any, labels: Any, model_outputs: Any, **kwargs: Any) -> None:
        del kwargs
        for metric in tf.nest.flatten(metrics):
            if metric.name == "auc":
                metric.update_state(labels, tf.nn.softmax(model_outputs)[:, 1])
            elif self.is_regression:
                metric.update_state(labels, model_outputs[:, 0])
            else:
                metric.update_state(labels, model_outputs)

    @classmethod
    @override
    def list_next_commands(cls, params: cfg.TaskConfig, model_dir: str) -> dict[str, str]:
        """Returns the commands that predict the target of rows."""
        del params
        return {
            "predict": f"quintain predict --model-dir={model_dir} --input=rows.csv",
            "serve": f"quintain serve-model --model-dir={model_dir}",
        }

    @override
    def build_export_module(self, model: keras.Model) -> export_base.ExportModule:
        """Returns the prediction of rows, whose cells are inputs by the names of their columns."""
        return table_serving.TablePrediction(self.task_config, model, self.columns)


def _build_network(
    config: table_configs.TableModelConfig, columns: columns_lib.Columns
) -> keras.Model:
    """Builds dense layers over normalised numbers and embedded categories.

    A missing number is the mean, and has a feature that says so where training saw such rows.

    Returns:
        Model from `numbers` `[B, A]` float32, where NaN is missing, and `categories` `[B, K]` int32
        to logits `[B, L]`, or to the number `[B, 1]` in the units of the target.
    """
    inputs, features = {}, []
    if columns.numbers:
        numbers = inputs["numbers"] = keras.Input([len(columns.numbers)], name="numbers")
        mean = np.array([column.mean for column in columns.numbers], np.float32)
        deviation = np.array([column.deviation for column in columns.numbers], np.float32)
        is_missing = keras.ops.isnan(numbers)  # [B, A]
        features.append(keras.ops.where(is_missing, 0.0, (numbers - mean) / deviation))
        for place, column in enumerate(columns.numbers):
            if column.has_missing:
                features.append(keras.ops.cast(is_missing[:, place : place + 1], "float32"))
    if columns.categories:
        shape = [len(columns.categories)]
        categories = keras.Input(shape, name="categories", dtype="int32")
        inputs["categories"] = categories
        for place, column in enumerate(columns.categories):
            size = columns_lib.FIRST + len(column.values)
            width = config.embedding_width or min(32, 1 + size // 2)
            features.append(keras.layers.Embedding(size, width)(categories[:, place]))
    x = keras.ops.concatenate(features, axis=-1) if len(features) > 1 else features[0]
    for _ in range(config.num_layers):
        x = keras.layers.Dense(config.width, activation="relu", kernel_initializer="he_normal")(x)
        if config.dropout_rate:
            x = keras.layers.Dropout(config.dropout_rate)(x)
    target = columns.target
    last = keras.layers.Dense(max(len(target.values), 1), dtype="float32", name="last")
    outputs = last(x)  # [B, L], or [B, 1]
    if target.kind == "number":
        outputs = outputs * target.deviation + target.mean
    return keras.Model(inputs, outputs)


@exp_factory.register_config_factory("tabular/local")
def tabular_local() -> cfg.ExperimentConfig:
    """Learns the rents of a drawn table of flats: within 35 of 790 on average, after a minute."""
    return _build_experiment(
        "drawn:flats/train", "drawn:flats/validation", target="rent", train_steps=1_000
    )


@exp_factory.register_config_factory("tabular/table")
def tabular_table() -> cfg.ExperimentConfig:
    """Predicts `task.target`, a column of your own CSV or Parquet files, from the others."""
    config = _build_experiment("", "", target="", train_steps=5_000)
    # mypy does not see the constructor arguments that all configs share.
    return cfg.ExperimentConfig(  # type: ignore[call-arg]
        task=config.task,
        trainer=config.trainer,
        runtime=config.runtime,
        restrictions=["task.train_data.input_path != ''", "task.validation_data.input_path != ''"],
    )


def _build_experiment(
    train: str, validation: str, *, target: str, train_steps: int
) -> cfg.ExperimentConfig:
    cosine = {"initial_learning_rate": 3e-3, "decay_steps": train_steps, "alpha": 0.01}
    adam = {
        "optimizer": {"type": "adam", "adam": {"global_clipnorm": 1.0}},
        "learning_rate": {"type": "cosine", "cosine": cosine},
    }
    return cfg.ExperimentConfig(
        task=table_configs.TabularConfig(
            target=target,
            train_data=table_configs.TableDataConfig(input_path=train, is_training=True),
            validation_data=table_configs.TableDataConfig(
                input_path=validation, is_training=False, global_batch_size=256
            ),
        ),
        trainer=cfg.TrainerConfig(
            optimizer_config=optimization.OptimizationConfig(adam),
            train_steps=train_steps,
            steps_per_loop=100,
            summary_interval=100,
            checkpoint_interval=500,
            validation_interval=500,
        ),
        runtime=cfg.RuntimeConfig(distribution_strategy="one_device"),
    )
