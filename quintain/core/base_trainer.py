"""The `Trainer`: runs a task's steps under a distribution strategy.

The controller calls `train(num_steps)` and `evaluate(num_steps)`; both are one loop of `train_step`
or `eval_step`, which call the task once per replica. Everything the loop must not forget is in
`Trainer.checkpoint`.
"""

import contextlib
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors, lazy_modules, orbit
from quintain.config import gin_io
from quintain.core import base_task
from quintain.core.loop import (
    dataset_distribution,
    loop_record,
    stateful_trainer,
    task_evaluation,
    trainer_setup,
    trainer_state,
)
from quintain.core.steps import autograph, model_metrics, task_checks
from quintain.distribute import distribution, elastic_steps, replica_steps
from quintain.optimization import optimizer_wrapper
from quintain.orbit import finite_data
from quintain.settings import config_definitions as cfg

if TYPE_CHECKING:
    from quintain.checkpoints import best_checkpoint
    from quintain.core.privacy import privacy_ledger
    from quintain.distribute import async_loops

ExperimentConfig = cfg.ExperimentConfig
TrainerConfig = cfg.TrainerConfig
__getattr__, __dir__ = lazy_modules.attach(
    __name__, find_names=lambda: {"get_runtime_options": "quintain.distribute.tpu"}
)


@gin_io.configurable
class Trainer(stateful_trainer.StatefulTrainer, orbit.StandardEvaluator):
    """Implements the common trainer shared for TensorFlow models.

    Build it inside the scope of the strategy. Training logs are means over a loop; evaluation logs
    are what the metrics, the loss and the task's own reduction give.
    """

    def __init__(
        self,
        config: ExperimentConfig,
        task: base_task.Task,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        train: bool = True,
        evaluate: bool = True,
        train_dataset: dataset_distribution.Dataset | None = None,
        validation_dataset: dataset_distribution.Dataset | None = None,
        checkpoint_exporter: "best_checkpoint.CheckpointExporter | None" = None,
    ) -> None:
        """Prepares the loops; nothing is computed or read yet.

        Args:
            config: The experiment. `config.task.train_data` and `validation_data` describe the
                data, unless datasets are passed.
            task: The task.
            model: Its model. A model without variables is built from the first batch.
            optimizer: The optimizer; its slots are created here.
            train: Whether `train` will be called.
            evaluate: Whether `evaluate` will be called.
            train_dataset: Training data, instead of `task.build_inputs`.
            validation_dataset: Evaluation data, instead of `task.build_inputs`.
            checkpoint_exporter: Exports checkpoints by their evaluation: an object with
                `maybe_export_checkpoint(checkpoint, logs, step)` and `best_ckpt_logs`.

        Raises:
            ConfigError: If `config` lacks a part that is needed.
        """
        trainer_setup.check_config(
            config, train and train_dataset is None, evaluate and validation_dataset is None
        )
        self._config = config
        self._task = task
        self._model = model
        self._optimizer = optimizer
        self._checkpoint_exporter = checkpoint_exporter
        self._state = trainer_state.TrainerState(
            self,
            config.trainer,
            config.runtime,
            count_used=self._count_used,
            list_loop_metrics=self._list_loop_metrics,
            get_probe_dataset=self.get_probe_dataset if train_dataset is None else None,
        )
        self._train_loss = keras.metrics.Mean("training_loss", dtype="float32")
        self._train_metrics: list[keras.metrics.Metric] = []
        self._elastic: elastic_steps.ElasticStep | None = None
        self._privacy = _build_ledger(config, task)
        self.init_async()
        self._set_up(train, train_dataset, evaluate, validation_dataset)

    def _set_up(
        self,
        train: bool,
        train_dataset: dataset_distribution.Dataset | None,
        evaluate: bool,
        validation_dataset: dataset_distribution.Dataset | None,
    ) -> None:
        """Prepares everything that depends on the model, the optimizer and the data."""
        trainer_setup.check_accumulation(self._config, self._optimizer)
        self._evaluation = task_evaluation.TaskEvaluation(
            self._task, self._model, self._config.runtime
        )
        if train:
            self._prepare_training(train_dataset)
            if self._config.runtime.elastic:
                self._elastic = self._build_elastic()
        if evaluate:
            self._prepare_evaluation(validation_dataset)
        self._state.follow(
            self._model, self._optimizer, is_built=self._model.built, is_training=train
        )
        if train and self._async is None and self._elastic is None:
            parts = self._task, self._model
            step = autograph.without_autograph(self._train_on, *parts, self._train_metrics, [self])
            spec = getattr(self._train_dataset, "element_spec", None)
            trainer_setup.build_optimizers(parts, step, spec)
        self._checkpoint = self._create_checkpoint(train)

    @property
    def config(self) -> ExperimentConfig:
        """The experiment."""
        return self._config

    @property
    def task(self) -> base_task.Task:
        """The task."""
        return self._task

    @property
    @override
    def model(self) -> keras.Model:
        return self._model

    @property
    def train_loss(self) -> keras.metrics.Mean:
        """Mean training loss of the running loop."""
        return self._train_loss

    @property
    def validation_loss(self) -> keras.metrics.Mean:
        """Mean evaluation loss."""
        return self._evaluation.loss

    @property
    def train_metrics(self) -> list[keras.metrics.Metric]:
        """Training metrics of the task and of the model."""
        return self._train_metrics

    @property
    def validation_metrics(self) -> list[keras.metrics.Metric]:
        """Evaluation metrics of the task and of the model."""
        return self._evaluation.metrics

    @property
    def checkpoint_exporter(self) -> "best_checkpoint.CheckpointExporter | None":
        """Exporter of checkpoints by their evaluation, or None."""
        return self._checkpoint_exporter

    def initialize(self) -> None:
        """Gives a new run its initial weights.

        Called when no checkpoint is found. If there is one, it is loaded and this is not called.
        Tasks may load a pretrained checkpoint from a directory other than the model directory.
        """
        self.task.initialize(self.model)
        self._state.restart_average()

    def init_async(self) -> None:
        """Prepares asynchronous training, where the strategy asks for it."""
        self._async = _build_async(self.strategy, self.global_step)

    def coordinator_for_async(self) -> tf.distribute.experimental.coordinator.ClusterCoordinator:
        """Returns the coordinator of asynchronous training.

        Raises:
            ConfigError: Unless training is asynchronous.
        """
        if self._async is None:
            raise errors.ConfigError(
                "runtime.distribution_strategy: there is a coordinator only under "
                f"'parameter_server', but got {type(self.strategy).__name__}."
            )
        return self._async.coordinator

    def join(self) -> None:
        """Waits for all asynchronous steps. Synchronous training has none."""
        if self._async is not None:
            self._async.join()

    def distribute_dataset(
        self, dataset_or_fn: dataset_distribution.DatasetOrFn, *args: Any, **kwargs: Any
    ) -> dataset_distribution.Dataset:
        """Distributes a dataset, or what a function builds, over the replicas.

        A single replica on the CPU reads the dataset directly, so that the position in it can be
        stored in checkpoints.

        Args:
            dataset_or_fn: A `tf.data.Dataset`, or a function returning one, which may take
                `input_context`.
            *args: Passed to the function.
            **kwargs: Passed to the function.

        Returns:
            A dataset to iterate over in the scope of the strategy.
        """
        if self._async is not None:
            build = functools.partial(
                dataset_distribution.build_dataset, dataset_or_fn, *args, **kwargs
            )
            return self._async.distribute_dataset(build)
        return dataset_distribution.distribute_dataset(
            self.strategy, dataset_or_fn, *args, **kwargs
        )

    def create_train_loop_fn(self) -> Callable[..., Any]:
        """Creates the loop over `train_step`; asynchronous steps are scheduled one by one."""
        if self._async is not None:
            return self._async.create_train_loop_fn(
                self.train_step, lambda: self.interruption, [self._optimizer.iterations]
            )
        return super().create_train_loop_fn()

    @override
    def _watching_input(self) -> contextlib.AbstractContextManager[Any]:
        if not self._is_train_data_built:
            return contextlib.nullcontext()
        from quintain.input.diagnosis import input_watch  # noqa: PLC0415 - only runs that train

        return input_watch.StallWatch(self.get_probe_dataset, lambda: self._state.step)

    def get_probe_dataset(self) -> tf.data.Dataset:
        """Builds the training pipeline of one replica anew, to measure its stages.

        The iterators of one dataset share the state of its shuffling, so that measuring the
        dataset in use would change what comes next.
        """
        return dataset_distribution.build_dataset(
            self._task.build_inputs, self._config.task.train_data
        )

    def train_loop_begin(self) -> None:
        """Called once at the beginning of the training loop, before the iterator is created."""
        self._state.use_average(False)  # A best checkpoint that was restored has averages.
        self._state.begin_loop()

    def next_train_inputs(self, iterator: Any) -> Any:
        """Fetches the next inputs for training. Override it to control what the model is sent."""
        return next(iterator)

    def train_step(self, iterator: Any) -> None:
        """Runs the task's `train_step` on every replica, on the next inputs.

        With accumulation of gradients a step takes several batches; the last one updates weights.
        """

        def take_batch() -> None:
            self._train_on(self._take_inputs(iterator))

        if self._elastic is not None:
            shards = range(self._config.runtime.elastic_shards)
            inputs = [self._take_inputs(iterator) for _ in shards]
            self._elastic.run(
                inputs,
                lambda update: replica_steps.compile_train_step(update, self._config.runtime)(),
                autograph=self.traced_train_step == self.train_step,
            )
            self.global_step.assign_add(1)
            return
        if self._state.accumulation is not None:
            is_preloaded = isinstance(iterator, finite_data.PreloadedIterator)
            self._state.accumulation.accumulate(take_batch, is_unrolled=is_preloaded)
        take_batch()
        self.global_step.assign_add(1)

    @property
    @override
    def traced_train_step(self) -> Callable[[Any], Any]:
        parts = self._task, self._model, self._train_metrics
        callers = [self, *optimizer_wrapper.list_nested(self._optimizer)]
        callers += [] if self._privacy is None else [self._task]  # XLA compiles its methods.
        return autograph.without_autograph(self.train_step, *parts, callers)

    @override
    def take_train_elements(self, take_fn: Callable[[], Any]) -> Any:
        """Takes the elements of a step of data that may end, and measures how long that takes."""
        return self._state.timing.measure_next(take_fn)

    def _take_inputs(self, iterator: Any) -> Any:
        """Fetches the next inputs, and measures how long that takes where it is possible."""
        if self._async is not None or isinstance(iterator, finite_data.PreloadedIterator):
            return self.next_train_inputs(iterator)
        return self._state.timing.measure_next(lambda: self.next_train_inputs(iterator))

    def _train_on(self, inputs: Any) -> None:
        def step_fn(replica_inputs: Any) -> None:
            self._step_replica(replica_inputs, self._optimizer)

        replica_steps.run(self.strategy, self._config.runtime, step_fn, inputs)
        self._state.random_watch.check_traced()

    def _step_replica(self, replica_inputs: Any, optimizer: Any) -> None:
        task_train_step = self._task.train_step
        privacy = self._privacy
        if privacy is None:
            task_train_step = replica_steps.compile_train_step(
                task_train_step, self._config.runtime
            )
        with contextlib.nullcontext() if privacy is None else privacy.private_sum_required():
            logs = task_train_step(
                replica_inputs, model=self._model, optimizer=optimizer, metrics=self._train_metrics
            )
        loss, count = logs[self._task.loss], logs.get(self._task.loss_count, 1.0)
        replica_steps.add_to_mean(self._train_loss, loss, count)
        real = replica_inputs if privacy is None else privacy.take_real(replica_inputs)
        self._state.count_items(self._task.count_items(real))

    def _build_elastic(self) -> elastic_steps.ElasticStep:
        """Builds the step of a run that does not depend on the number of workers."""
        task, own = type(self._task), base_task.Task
        has_sums = (task.weigh_replica, task.reduce_over_replicas) != (
            own.weigh_replica,
            own.reduce_over_replicas,
        )
        return elastic_steps.ElasticStep(
            self.strategy,
            self._config.runtime.elastic_shards,
            self._optimizer,
            self._step_replica,
            weigh=(lambda batch: self._task.reduce_over_replicas(self._task.split_inputs(batch)[1]))
            if has_sums
            else None,
            changes=elastic_steps.Changes(
                list_sums=lambda: [
                    part for metric in self._list_loop_metrics() for part in metric.variables
                ],
                list_statistics=lambda: trainer_setup.list_statistics(self._model),
                list_seeds=lambda: trainer_setup.list_seeds(self._model, self._task),
                counters=self._state.list_counters(),
            ),
        )

    def train_loop_end(self) -> dict[str, Any]:
        """Collects the means over the loop, and adds learning rate and rates.

        Returns:
            Mapping with the metrics, `training_loss`, `learning_rate`, and `examples_per_second`
            and `tokens_per_second` where the task counts them. Differentially private training adds
            `epsilon`.
        """
        self.join()
        logs = model_metrics.read(self._list_loop_metrics())
        return logs | self._state.end_loop() | self._read_privacy()

    def _read_privacy(self) -> dict[str, float]:
        return {} if self._privacy is None else self._privacy.read_logs(self._state.step)

    def _list_loop_metrics(self) -> list[keras.metrics.Metric]:
        compiled = model_metrics.compiled_parts(self._model)
        return [*self._train_metrics, *compiled, self._train_loss]

    def evaluate_one_batch(self) -> orbit.runner.Output:
        """Evaluates the first batch, to see what metrics an evaluation gives; exports nothing."""
        exporter, self._checkpoint_exporter = self._checkpoint_exporter, None
        try:
            return self.evaluate(tf.constant(1)) or {}
        finally:
            self._checkpoint_exporter = exporter

    def eval_begin(self) -> None:
        """Resets the evaluation metrics, and puts averaged weights in place if there are any."""
        self._state.begin_evaluation(self._checkpoint)
        self._evaluation.begin()

    def eval_abort(self) -> None:
        """Puts the state and the weights back that were there before the evaluation."""
        self._state.end_evaluation()

    def next_eval_inputs(self, iterator: Any) -> tuple[Any, dict[str, Any] | None]:
        """Fetches the next inputs for the model during evaluation.

        Returns:
            The inputs of the model, and logs that join its own before `aggregate_logs`, or None.
        """
        return next(iterator), None

    def eval_step(self, iterator: Any) -> dict[str, Any]:
        """Runs the task's `validation_step` on every replica, on the next inputs."""
        inputs, passthrough_logs = self.next_eval_inputs(iterator)
        return {**(passthrough_logs or {}), **self._evaluation.run_step(inputs)}

    @property
    @override
    def traced_eval_step(self) -> Callable[[Any], Any]:
        return self._evaluation.without_autograph(self.eval_step, self)

    def eval_reduce(self, state: Any = None, step_outputs: Any = None) -> Any:
        """Folds the outputs of one evaluation step into a state, by the task's `aggregate_logs`.

        Returns:
            The state for the next step; the last one goes to `eval_end`.
        """
        return self._evaluation.reduce(state, step_outputs)

    def eval_end(self, aggregated_logs: Any = None) -> dict[str, Any]:
        """Processes evaluation results.

        Returns:
            The metrics, `validation_loss` if there was one, what the task's
            `reduce_aggregated_logs` gives, and `best_METRIC` where the best checkpoint is exported.
        """
        try:
            self.join()
            logs = self._evaluation.collect(aggregated_logs, self.global_step)
            logs |= self._read_privacy()
            self._state.restore_snapshot()  # Exported is what training goes on with.
            if self._checkpoint_exporter is None:
                return logs
            from quintain.checkpoints import best_checkpoint  # noqa: PLC0415 - few runs export one

            return logs | best_checkpoint.export_best(
                self._checkpoint_exporter,
                self._checkpoint,
                logs,
                step=self._state.step,
                metric_name=self._config.trainer.best_checkpoint_eval_metric,
            )
        finally:
            self._state.end_evaluation()

    def _prepare_training(self, dataset: dataset_distribution.Dataset | None) -> None:
        if self._config.runtime.elastic:
            elastic_steps.check(self._config.runtime, self.strategy.num_replicas_in_sync)
            if dataset is not None:
                raise errors.ConfigError(
                    "train_dataset: got data with runtime.elastic, which builds them by "
                    "Task.build_inputs, shard by shard; leave one of them out."
                )
        obstacle = None if self._privacy is None else "training is differentially private"
        replica_steps.check_kernels(self._config.runtime, obstacle)
        self._build_from_batch(self._config.task.train_data, dataset)
        self._train_metrics = task_checks.build_metrics(self._task, self._model, training=True)
        self._is_train_data_built = dataset is None
        if dataset is None:
            dataset = self._build_dataset(self._config.task.train_data)
        elif self._async is not None and isinstance(dataset, tf.data.Dataset):
            dataset = self.distribute_dataset(dataset)
        if self._privacy is not None:
            self._privacy.log_start(dataset)
        options = trainer_setup.train_options(self._config.trainer, self._config.runtime)
        orbit.StandardTrainer.__init__(self, dataset, options)

    def _prepare_evaluation(self, dataset: dataset_distribution.Dataset | None) -> None:
        self._build_from_batch(self._config.task.validation_data, dataset)
        self._evaluation.metrics = task_checks.build_metrics(
            self._task, self._model, training=False
        )
        if dataset is None:
            dataset = self._build_dataset(self._config.task.validation_data, is_evaluation=True)
        options = trainer_setup.eval_options(self._config.trainer, self._config.runtime)
        orbit.StandardEvaluator.__init__(self, dataset, options)

    def _build_from_batch(
        self, params: cfg.DataConfig, dataset: dataset_distribution.Dataset | None
    ) -> None:
        """Makes the variables that need a batch: of `dataset`, or of a pipeline of its own."""
        if not trainer_setup.needs_batch(self._model):
            return
        if dataset is None:
            dataset = dataset_distribution.build_dataset(self._task.build_inputs, params)
        trainer_setup.build_from_batch(self._model, self._task, dataset, self.strategy)

    def _build_dataset(
        self, params: cfg.DataConfig, *, is_evaluation: bool = False
    ) -> dataset_distribution.Dataset:
        """Builds the task's dataset, with the run's seed where the data has none of its own."""
        if self._privacy is not None:
            params = self._privacy.with_sampling(params)
        build = dataset_distribution.create_task_builder(
            self.strategy, self._task, params, self._config.runtime
        )
        if self._config.runtime.elastic:
            return build(
                elastic_steps.input_context(self._config.runtime, is_training=not is_evaluation)
            )
        if self._async is not None and is_evaluation:
            # The coordinator evaluates by itself, so that every example counts once.
            return build()
        return self.distribute_dataset(build)

    def _create_checkpoint(self, train: bool) -> tf.train.Checkpoint:
        positions = {}
        if train and self._async is None:
            positions["data_position"] = self._state.create_position(
                self._train_dataset,
                self.ensure_train_iterator,
                self._restart_train_data,
                is_external=(
                    self._is_train_data_built
                    and self._config.task.train_data.enable_tf_data_service
                ),
            )
        return self._state.create_checkpoint(
            {"": self._task},
            positions,
            list_metrics=lambda: [*self._train_metrics, *self._evaluation.metrics],
            is_training=train,
        )

    def _count_used(self) -> dict[str, int]:
        return {loop_record.SINGLE: self._state.step * self.elements_per_step}

    def _restart_train_data(self) -> Any:
        """Returns an iterator that stands at the beginning of the training data."""
        if not self.loop_record.has_begun:
            return self.ensure_train_iterator()
        if self._is_train_data_built:
            # A second iterator of the same dataset would shuffle in another order.
            self._train_dataset = self._build_dataset(self._config.task.train_data)
        self.train_iterator = None
        return self.ensure_train_iterator()


def _build_ledger(
    config: ExperimentConfig, task: base_task.Task
) -> "privacy_ledger.PrivacyLedger | None":
    if cfg.find_privacy(config) is None:
        return None
    from quintain.core.privacy import privacy_ledger  # noqa: PLC0415 - few trainings have one

    return privacy_ledger.PrivacyLedger(config, task)


def _build_async(
    strategy: tf.distribute.Strategy, global_step: tf.Variable
) -> "async_loops.AsyncTraining | None":
    if not distribution.is_asynchronous(strategy):
        return None
    from quintain.distribute import async_loops  # noqa: PLC0415 - few trainings are

    return async_loops.AsyncTraining(strategy, global_step)
