"""The `Task`: everything that belongs to one machine-learning task.

A task says what the model is, where its data comes from, what loss is minimised and what is
measured. It is a single-replica view: it knows nothing of loops, devices or checkpoints. The
trainer calls it in this order: `create_optimizer`, `build_model`, `build_metrics`, `build_inputs`,
`initialize`, then `train_step` and `validation_step` on the device.
"""

import abc
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import keras
import tensorflow as tf

from quintain import errors
from quintain.checkpoints import checkpoint_fit
from quintain.core import task_serving
from quintain.core.reports.shown_metrics import MetricLabel as MetricLabel
from quintain.core.steps import model_metrics, task_checks
from quintain.distribute import replica_steps
from quintain.optimization import (
    gradient_accumulation,
    optimizer_factory,
)
from quintain.optimization.configs.optimization_config import (
    OptimizationConfig as OptimizationConfig,
)
from quintain.settings import config_definitions as cfg
from quintain.settings.config_definitions import (
    DifferentialPrivacyConfig,
    RuntimeConfig,
    TaskConfig,  # noqa: F401
)

if TYPE_CHECKING:
    from quintain.core.privacy import private_training


class Task(task_serving.ServingTask, metaclass=abc.ABCMeta):
    """A single-replica view of a training procedure.

    Only `build_inputs` must be overridden. Users usually override `build_model`, `build_losses` and
    `build_metrics` as well, and `train_step` and `validation_step` where the defaults do not fit.
    """

    loss = "loss"
    """Key of the loss in the logs of a step."""

    loss_count = "loss_count"
    """Key of how many examples the loss counts for in means; without it, batches count alike."""

    metric_labels: ClassVar[Mapping[str, MetricLabel]] = {}
    """How metrics are shown while a run goes on, by their names in its logs, the most important
    first. Those that are not here follow, by their names."""

    def __init__(
        self, params: cfg.TaskConfig, logging_dir: str | None = None, name: str | None = None
    ) -> None:
        """Stores the task's config.

        Args:
            params: The task's config.
            logging_dir: Directory for what the task writes, usually the model directory.
            name: Name of the task. Defaults to the class name in snake case.
        """
        super().__init__(name=name)
        self._task_config = params
        self._logging_dir = logging_dir or ""

    @property
    def task_config(self) -> cfg.TaskConfig:
        """The config this task was built from."""
        return self._task_config

    @property
    def logging_dir(self) -> str:
        """Directory for what the task writes; empty if it may write nothing."""
        return self._logging_dir

    @classmethod
    def create_optimizer(
        cls,
        optimizer_config: OptimizationConfig,
        runtime_config: RuntimeConfig | None = None,
        dp_config: DifferentialPrivacyConfig | None = None,
    ) -> keras.optimizers.Optimizer:
        """Creates the optimizer that a config describes.

        Under float16 it is a `LossScaleOptimizer`, so that small gradients do not vanish: with a
        scale that adapts, or the fixed `runtime.loss_scale`.

        Args:
            optimizer_config: Optimizer, learning rate and warm-up.
            runtime_config: Precision and loss scale.
            dp_config: Differentially private training: the optimizer adds noise to the sum of
                gradients, before its own clipping, and the same on every replica.

        Raises:
            ConfigError: If the optimizer or the learning rate is not chosen, or does not go with
                `dp_config`.
        """
        factory = optimizer_factory.OptimizerFactory(optimizer_config)
        if dp_config is None:
            optimizer = factory.build_optimizer(factory.build_learning_rate())
        else:
            from quintain.core.privacy import private_training  # noqa: PLC0415 - few tasks do

            private_training.check_optimizer(optimizer_config, runtime_config)
            optimizer = private_training.build_optimizer(factory, dp_config)
        num_batches = optimizer_config.gradient_accumulation_steps
        if num_batches > 1:
            optimizer = gradient_accumulation.GradientAccumulation(optimizer, num_batches)
        if runtime_config is not None and runtime_config.mixed_precision_dtype == "float16":
            from quintain.optimization import loss_scaling  # noqa: PLC0415 - few machines do

            # Outermost: steps ask `isinstance(optimizer, LossScaleOptimizer)`.
            optimizer = loss_scaling.scale_loss(optimizer, runtime_config.loss_scale)
        return optimizer

    def initialize(self, model: keras.Model) -> None:
        """Loads `task.init_checkpoint` into a new model, if it is set.

        Called when the model directory holds no checkpoint; a resumed run keeps its own weights.
        The checkpoint must hold every variable of `model` (or of `model.checkpoint_items`, where a
        model offers this mapping of names to trackable parts) and may hold more. Variables that
        `task.init_exclude` matches stay new.

        Raises:
            CheckpointError: If there is no checkpoint at the path, or it does not fit the model.
            ConfigError: If a pattern of `task.init_exclude` matches nothing.
        """
        if self.task_config.init_checkpoint:
            checkpoint_fit.restore_newest(
                model,
                self.task_config.init_checkpoint,
                "task.init_checkpoint",
                self.task_config.init_exclude,
            )

    def build_model(self) -> keras.Model:
        """Builds the model. Called once, in the scope of the strategy.

        A model may offer `checkpoint_items`, a mapping of names to trackable parts that are stored
        in checkpoints under these names and matched by `initialize`.
        """
        raise NotImplementedError(f"{type(self).__name__}.build_model")

    def grow_model(self, old_model: keras.Model, new_model: keras.Model) -> None:
        """Gives the model of a new stage of progressive training what the former one has learnt.

        The default copies all weights, for models of the same shape. Override it for models that
        grow.

        Raises:
            ConfigError: If the models have different shapes.
        """
        shapes = [[tuple(v.shape) for v in model.variables] for model in (old_model, new_model)]
        if shapes[0] != shapes[1]:
            raise errors.ConfigError(
                f"trainer.progressive.stages: the model of a stage has other shapes than the one "
                f"before, and {type(self).__name__} does not say how it grows. Override "
                "`Task.grow_model`, or keep the model the same in all stages."
            )
        for old, new in zip(old_model.variables, new_model.variables, strict=True):
            new.assign(old)

    @abc.abstractmethod
    def build_inputs(
        self, params: cfg.DataConfig, input_context: tf.distribute.InputContext | None = None
    ) -> tf.data.Dataset:
        """Builds one input pipeline.

        Args:
            params: Which data, and how it is batched.
            input_context: This pipeline's share of the work, where there are several.

        Returns:
            A dataset of batches, each of the size of one replica's share.
        """

    def build_losses(
        self, labels: Any, model_outputs: Any, aux_losses: Any | None = None
    ) -> tf.Tensor:
        """Computes the loss of one replica's batch, a mean over its examples.

        The default adds up `aux_losses`.

        Args:
            labels: Labels, or None.
            model_outputs: What the model returned.
            aux_losses: Losses that the model itself added, such as regularisation.

        Returns:
            Scalar float tensor, or one of a single element.
        """
        del labels, model_outputs
        return tf.constant(0.0) if not aux_losses else tf.add_n(aux_losses)

    def build_metrics(self, training: bool = True) -> list[keras.metrics.Metric]:
        """Builds the streaming metrics of training or of evaluation. The default has none."""
        del training
        return []

    def count_items(self, inputs: Any) -> dict[str, tf.Tensor]:
        """Counts what is useful in one replica's batch, for the rates shown during training.

        The default counts examples, by the first dimension of the first tensor. A task on text adds
        `tokens`.

        Returns:
            Mapping from name to scalar integer tensor.
        """
        leaves = [leaf for leaf in tf.nest.flatten(inputs) if leaf.shape.rank != 0]
        return {"examples": tf.shape(leaves[0])[0]} if leaves else {}

    def process_metrics(self, metrics: Any, labels: Any, model_outputs: Any, **kwargs: Any) -> None:
        """Updates the metrics from one batch. The default calls `update_state(labels, outputs)`."""
        del kwargs
        for metric in tf.nest.flatten(metrics):
            metric.update_state(labels, model_outputs)

    def process_compiled_metrics(
        self, compiled_metrics: Any, labels: Any, model_outputs: Any
    ) -> None:
        """Updates the metrics that a model was compiled with."""
        compiled_metrics.update_state(labels, model_outputs)

    def count_batch_examples(self, params: cfg.DataConfig) -> int:
        """Returns how many examples a batch over all replicas has at most.

        Differential privacy counts with it. The default is `global_batch_size`; a task whose
        batches are not measured in examples overrides it.
        """
        return params.global_batch_size

    def split_inputs(self, inputs: Any) -> tuple[Any, Any]:
        """Returns what the model is given of a batch, and what the loss is given as labels.

        The default takes `(features, labels)` apart; anything else is both.
        """
        if isinstance(inputs, tuple) and len(inputs) == 2:
            return inputs
        return inputs, inputs

    def compute_loss(
        self, labels: Any, outputs: Any, model: keras.Model, aux_losses: list[tf.Tensor]
    ) -> tf.Tensor:
        """Computes the loss of one replica's batch, with everything that belongs to it.

        Training and evaluation take it from here. It is what `build_losses` gives, and for a model
        that was compiled with a loss, that one added.

        Returns:
            Scalar float tensor.

        Raises:
            ConfigError: If nothing gives a loss.
        """
        if not self._has_loss(model, aux_losses):
            raise errors.ConfigError(
                f"{type(self).__name__}: there is no loss to minimise. Override `build_losses`, "
                "compile the model with a loss in `build_model`, or let a layer call `add_loss`."
            )
        compiled = model_metrics.compiled_loss(model)
        own = self.build_losses(labels, outputs, aux_losses=None if compiled else aux_losses)
        own = task_checks.to_scalar(self, own)
        if compiled is None:
            return own
        return compiled(labels, outputs) + own + (tf.add_n(aux_losses) if aux_losses else 0.0)

    def _has_loss(self, model: keras.Model, aux_losses: list[tf.Tensor]) -> bool:
        is_own = type(self).build_losses is not Task.build_losses
        return is_own or bool(aux_losses) or model_metrics.compiled_loss(model) is not None

    def update_metrics(
        self, metrics: Any | None, labels: Any, outputs: Any, model: keras.Model, **kwargs: Any
    ) -> None:
        """Updates the task's metrics, and those that the model was compiled with."""
        if metrics:
            self.process_metrics(metrics, labels, outputs, **kwargs)
        compiled = model_metrics.compiled_metrics(model)
        if compiled is not None:
            self.process_compiled_metrics(compiled, labels, outputs)

    @functools.cached_property
    def _private_step(self) -> "private_training.PrivateStep | None":
        """Differentially private step, in place of the ordinary one."""
        dp_config = getattr(self.task_config, "differential_privacy_config", None)
        if dp_config is None:
            return None
        from quintain.core.privacy import private_training  # noqa: PLC0415 - few tasks do

        return private_training.PrivateStep(
            dp_config,
            lambda labels, outputs, model: self.compute_loss(labels, outputs, model, model.losses),
        )

    def train_step(
        self,
        inputs: Any,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        metrics: Any | None = None,
    ) -> dict[str, Any]:
        """Does the forward and the backward pass of one replica and updates the weights.

        The gradient is divided by the number of replicas, because the optimizer sums it over them.

        With `task.differential_privacy_config`, the gradient of each example is clipped before they
        are summed (see `private_training`). The loss is then computed on batches of one example.

        Args:
            inputs: One batch: `(features, labels)`, or a structure that is both.
            model: The model.
            optimizer: The optimizer.
            metrics: Training metrics to update.

        Returns:
            Logs, with the loss of this replica, times its weight, under `loss`.
        """
        if self._private_step is not None:
            step = self._private_step.run(inputs, self.split_inputs, model, optimizer)
            return self._log_step(step.loss, step.labels, step.outputs, model, metrics)
        task_checks.check_trainable(self, model)
        features, labels = self.split_inputs(inputs)
        weight = self.weigh_replica(labels)
        with tf.GradientTape() as tape:
            outputs = model(features, training=True)
            loss = self.compute_loss(labels, outputs, model, model.losses)
            if weight is not None:
                loss *= tf.cast(weight, loss.dtype)
            scaled_loss = loss / tf.cast(replica_steps.count_replicas(), loss.dtype)
            scaled_loss = optimizer.scale_loss(scaled_loss)
        variables = [variable.value for variable in model.trainable_variables]
        gradients = tape.gradient(scaled_loss, variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return self._log_step(loss, labels, outputs, model, metrics)

    def weigh_replica(self, labels: Any) -> tf.Tensor | None:
        """Returns how much this replica's training loss counts; None for as much as any other.

        Override it where the loss is a mean over something of which replicas have unequal numbers,
        such as tokens. The weights of all replicas must have the mean 1.

        Args:
            labels: Labels of this replica's batch.

        Returns:
            Scalar, or None.
        """
        del labels
        return None

    def reduce_over_replicas(self, labels: Any) -> None:
        """Does what the training loss sums over replicas, in its order.

        `runtime.elastic` needs the sums before the losses. Override it where `build_losses` calls
        `all_reduce`.

        Args:
            labels: Labels of this replica's batch.
        """
        self.weigh_replica(labels)

    def validation_step(
        self, inputs: Any, model: keras.Model, metrics: Any | None = None
    ) -> dict[str, Any]:
        """Evaluates one replica's batch.

        Args:
            inputs: One batch: `(features, labels)`, or a structure that is both.
            model: The model.
            metrics: Evaluation metrics to update.

        Returns:
            Logs, with the loss under `loss`, which is the one that training minimises. It is left
            out where a `train_step` of the task's own is all that knows it. The logs are handed to
            `aggregate_logs`.

        Raises:
            ConfigError: If nothing gives a loss, and `train_step` is not overridden.
        """
        features, labels = self.split_inputs(inputs)
        outputs = self.inference_step(features, model)
        is_trained_here = type(self).train_step is Task.train_step
        loss = None
        if is_trained_here or self._has_loss(model, model.losses):
            loss = self.compute_loss(labels, outputs, model, model.losses)
        return self._log_step(loss, labels, outputs, model, metrics)

    def inference_step(self, inputs: Any, model: keras.Model) -> Any:
        """Runs the model without training behaviour such as dropout."""
        return model(inputs, training=False)

    def aggregate_logs(self, state: Any = None, step_outputs: Any = None) -> Any:
        """Folds the logs of one evaluation step into a state, on the host.

        Together with `reduce_aggregated_logs` this computes metrics that need all of the
        evaluation's outputs. The default keeps nothing.

        Args:
            state: What the previous call returned; None at first.
            step_outputs: Logs of the step; each value a tuple with one tensor a replica.

        Returns:
            The new state; None switches the aggregation off.
        """
        del state, step_outputs

    def reduce_aggregated_logs(
        self, aggregated_logs: Any, global_step: tf.Variable | None = None
    ) -> dict[str, Any]:
        """Computes the final metrics from what `aggregate_logs` gathered, on the host.

        Args:
            aggregated_logs: The last state of `aggregate_logs`.
            global_step: The step that is evaluated.

        Returns:
            Metrics to add to the evaluation's output; they win over others of the same name. A
            mapping of images under `visualization` (`[N, H, W, C]`, uint8 or float in `[0, 1]`)
            goes to the summaries, if `task.allow_image_summary` is set.
        """
        del aggregated_logs, global_step
        return {}

    def _log_step(
        self,
        loss: tf.Tensor | None,
        labels: Any,
        outputs: Any,
        model: keras.Model,
        metrics: Any | None,
    ) -> dict[str, Any]:
        logs: dict[str, Any] = {} if loss is None else {self.loss: loss}
        self.update_metrics(metrics, labels, outputs, model)
        return logs | model_metrics.read(model_metrics.compiled_parts(model))
