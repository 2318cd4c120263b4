"""The `Trainer`: runs a task's steps under a distribution strategy.

The controller calls `train(num_steps)` and `evaluate(num_steps)`; both are one loop of `train_step`
or `eval_step`, which call the task once per replica. Everything the loop must not forget is in
`Trainer.checkpoint`.
"""

import functools
from collections.abc import Callable
from typing import Any, Final

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors, orbit
from quintain.config import gin_io
from quintain.core import base_task
from quintain.core import config_definitions as cfg
from quintain.core.devices import (
    async_loops,
    distribution,
    replica_seeds,
    replica_statistics,
    replica_steps,
)
from quintain.core.input import input_watch, pipeline_inspection, random_watch
from quintain.core.loop import dataset_distribution, loop_record, loop_timing, trainer_setup
from quintain.core.privacy import privacy_accounting, privacy_ledger
from quintain.core.reports import image_summaries
from quintain.core.saving import checkpoint_fit, checkpoint_state, cluster_checkpoints, task_state
from quintain.core.steps import model_metrics, traced_errors
from quintain.optimization import (
    ema,
    optimizer_wrapper,
)
from quintain.orbit import cluster, finite_data

ExperimentConfig = cfg.ExperimentConfig
COUNTED_ITEMS: Final = ("examples", "tokens")


@gin_io.configurable
class Trainer(orbit.StandardTrainer, orbit.StandardEvaluator):
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
        train_dataset: tf.data.Dataset | tf.distribute.DistributedDataset | None = None,
        validation_dataset: tf.data.Dataset | tf.distribute.DistributedDataset | None = None,
        checkpoint_exporter: Any = None,
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
        self._strategy = tf.distribute.get_strategy()
        self._config = config
        self._task = task
        self._model = model
        self._optimizer = optimizer
        self._checkpoint_exporter = checkpoint_exporter
        self._global_step = orbit.utils.create_global_step()
        self._train_loss = keras.metrics.Mean("training_loss", dtype="float32")
        self._validation_loss = keras.metrics.Mean("validation_loss", dtype="float32")
        self._train_metrics: list[keras.metrics.Metric] = []
        self._validation_metrics: list[keras.metrics.Metric] = []
        self._item_counts = {name: _create_counter(name) for name in COUNTED_ITEMS}
        self._loop_position = tf.Variable(0, dtype=tf.int64, trainable=False, name="loop_position")
        self._timing = loop_timing.LoopTiming(
            self.get_probe_dataset if train_dataset is None else None
        )
        self._loop_record = loop_record.LoopRecord(self, self._global_step, self._count_used)
        self._privacy = privacy_ledger.PrivacyLedger(config, task)
        self._random_watch = random_watch.RandomWatch()
        self.init_async()
        self._set_up(train, train_dataset, evaluate, validation_dataset)

    def _set_up(
        self, train: bool, train_dataset: Any, evaluate: bool, validation_dataset: Any
    ) -> None:
        """Prepares everything that depends on the model, the optimizer and the data."""
        model, optimizer = self._model, self._optimizer
        self._average = optimizer_wrapper.find_wrapper(optimizer, ema.ExponentialMovingAverage)
        self._accumulation = trainer_setup.find_accumulation(self._config, optimizer)
        self._norms = trainer_setup.track_norms(self._config.trainer, optimizer) if train else None
        if train:
            self._prepare_training(train_dataset)
        if evaluate:
            self._prepare_evaluation(validation_dataset)
        if model.built and optimizer is not None:
            if self._average is not None:
                self._average.shadow_copy(model)
            optimizer.build(model.trainable_variables)
        self._statistics = replica_statistics.ReplicaStatistics(
            self._strategy, model, self._average
        )
        if train:
            distribution.pack_gradients(self._strategy, self._config.runtime, model)
            replica_seeds.make_distinct(model, self._strategy)
        self._checkpoint = self._create_checkpoint(train)

    @property
    def strategy(self) -> tf.distribute.Strategy:
        """The strategy in whose scope the trainer was built."""
        return self._strategy

    @property
    def config(self) -> ExperimentConfig:
        """The experiment."""
        return self._config

    @property
    def task(self) -> base_task.Task:
        """The task."""
        return self._task

    @property
    def model(self) -> keras.Model:
        """The model."""
        return self._model

    @property
    def optimizer(self) -> keras.optimizers.Optimizer:
        """The optimizer."""
        return self._optimizer

    @property
    def global_step(self) -> tf.Variable:
        """Scalar int64: training steps done."""
        return self._global_step

    @property
    def loop_position(self) -> tf.Variable:
        """Scalar int64: steps that an interrupted loop had left; 0 between two loops."""
        return self._loop_position

    @property
    def loop_record(self) -> loop_record.LoopRecord:
        """Where the running loop began, which batches were drawn, and the run's recoveries."""
        return self._loop_record

    @property
    def train_loss(self) -> keras.metrics.Mean:
        """Mean training loss of the running loop."""
        return self._train_loss

    @property
    def validation_loss(self) -> keras.metrics.Mean:
        """Mean evaluation loss."""
        return self._validation_loss

    @property
    def train_metrics(self) -> list[keras.metrics.Metric]:
        """Training metrics of the task and of the model."""
        return self._train_metrics

    @property
    def validation_metrics(self) -> list[keras.metrics.Metric]:
        """Evaluation metrics of the task and of the model."""
        return self._validation_metrics

    @property
    def checkpoint(self) -> tf.train.Checkpoint:
        """Step, model, optimizer, data position, random state and the running loop's metrics."""
        return self._checkpoint

    @property
    def checkpoint_exporter(self) -> Any:
        """Exporter of checkpoints by their evaluation, or None."""
        return self._checkpoint_exporter

    def initialize(self) -> None:
        """Gives a new run its initial weights.

        Called when no checkpoint is found. If there is one, it is loaded and this is not called.
        Tasks may load a pretrained checkpoint from a directory other than the model directory.
        """
        self.task.initialize(self.model)
        if self._average is not None:
            self._average.shadow_copy(self.model)

    def init_async(self) -> None:
        """Prepares asynchronous training, where the strategy asks for it."""
        self._async = (
            async_loops.AsyncTraining(self._strategy, self._global_step)
            if async_loops.is_asynchronous(self._strategy)
            else None
        )

    def coordinator_for_async(self) -> tf.distribute.experimental.coordinator.ClusterCoordinator:
        """Returns the coordinator of asynchronous training.

        Raises:
            ConfigError: Unless training is asynchronous.
        """
        if self._async is None:
            raise errors.ConfigError(
                "runtime.distribution_strategy: there is a coordinator only under "
                f"'parameter_server', but got {type(self._strategy).__name__}."
            )
        return self._async.coordinator

    def join(self) -> None:
        """Waits for all asynchronous steps. Synchronous training has none."""
        if self._async is not None:
            self._async.join()

    def distribute_dataset(self, dataset_or_fn: Any, *args: Any, **kwargs: Any) -> Any:
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
            self._strategy, dataset_or_fn, *args, **kwargs
        )

    def create_train_loop_fn(self) -> Callable[..., Any]:
        """Creates the loop over `train_step`, as `trainer.train_tf_while_loop` asks.

        Asynchronous steps are scheduled one by one instead.
        """
        if self._async is not None:
            return self._async.create_train_loop_fn(
                self.train_step, lambda: self.interruption, [self._optimizer.iterations]
            )
        return super().create_train_loop_fn()

    def create_eval_loop_fn(self, has_state: bool) -> Callable[..., Any]:
        """Creates the loop over `eval_step`, as `trainer.eval_tf_while_loop` asks.

        Args:
            has_state: Whether `eval_begin` returned a state.
        """
        return super().create_eval_loop_fn(has_state)

    @override
    @traced_errors.unwrapping()
    def train(self, num_steps: tf.Tensor) -> orbit.runner.Output | None:
        """Implements `num_steps` steps of training.

        Args:
            num_steps: Scalar integer tensor: calls of `train_step`.

        Returns:
            The output of `train_loop_end`; None if the loop was interrupted.
        """
        with cluster.explain_lost_workers(self._strategy):
            logs = self._train_watched(num_steps)
            self._statistics.synchronize()
            return logs

    def _train_watched(self, num_steps: tf.Tensor) -> orbit.runner.Output | None:
        if not self._is_train_data_built:
            return super().train(num_steps)
        with input_watch.StallWatch(self.get_probe_dataset, lambda: int(self._global_step.numpy())):
            return super().train(num_steps)

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
        self._put_weights_back()  # A best checkpoint, if restored, has the averages in their place.
        self._timing.begin_loop(int(self._global_step.numpy()))
        self._loop_record.begin_loop()

    @property
    def elements_per_step(self) -> int:
        """Batches of a step: more than 1 where gradients are accumulated."""
        return 1 if self._accumulation is None else self._accumulation.num_batches

    def next_train_inputs(self, iterator: Any) -> Any:
        """Fetches the next inputs for the model during training.

        Override it to control what is fetched and what is sent to the model.

        Args:
            iterator: Iterator of the training data.
        """
        return next(iterator)

    def train_step(self, iterator: Any) -> None:
        """Runs the task's `train_step` on every replica, on the next inputs.

        With accumulation of gradients a step takes several batches; the last one updates weights.
        """
        if self._accumulation is not None:
            num_before = self._accumulation.num_batches - 1
            is_preloaded = isinstance(iterator, finite_data.PreloadedIterator)
            with self._accumulation.accumulating():
                for _ in range(num_before) if is_preloaded else tf.range(num_before):
                    self._train_on(self._take_inputs(iterator))
        self._train_on(self._take_inputs(iterator))
        self._global_step.assign_add(1)

    @override
    def take_train_elements(self, take_fn: Callable[[], Any]) -> Any:
        """Takes the elements of a step of data that may end, and measures how long that takes."""
        return self._timing.measure_next(take_fn)

    def _take_inputs(self, iterator: Any) -> Any:
        """Fetches the next inputs, and measures how long that takes where it is possible."""
        if self._async is not None or isinstance(iterator, finite_data.PreloadedIterator):
            return self.next_train_inputs(iterator)
        return self._timing.measure_next(lambda: self.next_train_inputs(iterator))

    def _train_on(self, inputs: Any) -> None:
        """Runs the task's `train_step` on every replica."""
        runtime = self._config.runtime
        task_train_step = self._task.train_step
        if not self._privacy.is_private:
            task_train_step = replica_steps.compile_step(task_train_step, runtime)

        def step_fn(replica_inputs: Any) -> None:
            with self._privacy.watching():
                logs = task_train_step(
                    replica_inputs,
                    model=self._model,
                    optimizer=self._optimizer,
                    metrics=self._train_metrics,
                )
            if self._async is None:
                self._train_loss.update_state(logs[self._task.loss])
            else:
                async_loops.add_to_mean(self._train_loss, logs[self._task.loss])
            real_inputs = self._privacy.take_real(replica_inputs)
            for name, count in self._task.count_items(real_inputs).items():
                self._item_counts[name].assign_add(tf.cast(count, tf.int64))

        replica_steps.run(self._strategy, runtime, step_fn, inputs)
        self._random_watch.check_traced()

    def train_loop_end(self) -> dict[str, Any]:
        """Collects the means over the loop, resets them, and adds learning rate and rates.

        Returns:
            Mapping with the metrics, `training_loss`, `learning_rate`, and `examples_per_second`
            and `tokens_per_second` where the task counts them. Differentially private training adds
            `epsilon`.
        """
        self.join()
        logs: dict[str, Any] = {}
        compiled = model_metrics.compiled_metrics(self._model)
        metrics = [*self._train_metrics, compiled, self._train_loss]
        logs.update(model_metrics.read(metrics))
        model_metrics.reset(metrics)
        logs["learning_rate"] = self._current_learning_rate()
        logs.update(self._timing.end_loop(int(self._global_step.numpy())))
        logs.update(self._timing.read_rates(self._item_counts))
        if self._norms is not None:
            logs.update(self._norms.take_means())
        return logs | self._privacy.read_logs(int(self._global_step.numpy()))

    @override
    def evaluate(self, num_steps: tf.Tensor) -> orbit.runner.Output | None:
        """Implements `num_steps` steps of evaluation.

        Args:
            num_steps: Scalar integer tensor: batches to evaluate; -1 evaluates all of the data.

        Returns:
            The output of `eval_end`.

        Raises:
            ValueError: If `trainer.eval_tf_while_loop` is set and `num_steps` is -1.
        """
        return super().evaluate(num_steps)

    def evaluate_one_batch(self) -> orbit.runner.Output:
        """Evaluates the first batch, to see what metrics an evaluation gives; exports nothing."""
        exporter, self._checkpoint_exporter = self._checkpoint_exporter, None
        try:
            return self.evaluate(tf.constant(1)) or {}
        finally:
            self._checkpoint_exporter = exporter

    def eval_begin(self) -> None:
        """Resets the evaluation metrics, and puts averaged weights in place if there are any."""
        if self._average is not None and not self._average.is_swapped:
            self._average.swap_weights()
        compiled = model_metrics.compiled_metrics(self._model)
        model_metrics.reset([*self._validation_metrics, compiled, self._validation_loss])

    def eval_abort(self) -> None:
        """Puts the weights back in place of their averages."""
        self._put_weights_back()

    def _put_weights_back(self) -> None:
        if self._average is not None and self._average.is_swapped:
            self._average.swap_weights()

    def next_eval_inputs(self, iterator: Any) -> tuple[Any, dict[str, Any] | None]:
        """Fetches the next inputs for the model during evaluation.

        Args:
            iterator: Iterator of the evaluation data.

        Returns:
            The inputs of the model, and logs that stay on the host and are merged with the model's
            own before `aggregate_logs`; None for no such logs.
        """
        return next(iterator), None

    def eval_step(self, iterator: Any) -> dict[str, Any]:
        """Runs the task's `validation_step` on every replica, on the next inputs."""
        inputs, passthrough_logs = self.next_eval_inputs(iterator)
        runtime = self._config.runtime
        task_validation_step = replica_steps.compile_step(self._task.validation_step, runtime)

        def step_fn(replica_inputs: Any) -> dict[str, Any]:
            logs = task_validation_step(
                replica_inputs, model=self._model, metrics=self._validation_metrics
            )
            if self._task.loss in logs:
                self._update_validation_loss(logs[self._task.loss], replica_inputs)
            return logs

        outputs = replica_steps.run(self._strategy, runtime, step_fn, inputs)
        logs = tf.nest.map_structure(self._strategy.experimental_local_results, outputs)
        if not passthrough_logs:
            return logs
        return {**passthrough_logs, **logs}

    def eval_reduce(self, state: Any = None, step_outputs: Any = None) -> Any:
        """Folds the outputs of one evaluation step into a state, by the task's `aggregate_logs`.

        Args:
            state: A state being maintained throughout the evaluation.
            step_outputs: Outputs from the current evaluation step.

        Returns:
            The state for the next step; the last one goes to `eval_end`.
        """
        if type(self._task).aggregate_logs is not base_task.Task.aggregate_logs:
            step_outputs = cluster.gather_logs(self._strategy, step_outputs)
        return self._task.aggregate_logs(state, step_outputs)

    def eval_end(self, aggregated_logs: Any = None) -> dict[str, Any]:
        """Processes evaluation results.

        Args:
            aggregated_logs: The last state of `eval_reduce`.

        Returns:
            The metrics, `validation_loss` if there was one, what the task's
            `reduce_aggregated_logs` gives, and `best_METRIC` where the best checkpoint is exported.
        """
        try:
            return self._collect_eval_logs(aggregated_logs)
        finally:
            self._put_weights_back()

    def _collect_eval_logs(self, aggregated_logs: Any) -> dict[str, Any]:
        self.join()
        compiled = model_metrics.compiled_metrics(self._model)
        logs = model_metrics.read([*self._validation_metrics, compiled])
        if float(tf.convert_to_tensor(self._validation_loss.count)):
            logs[self._validation_loss.name] = self._validation_loss.result()
        if aggregated_logs:
            logs.update(
                self._task.reduce_aggregated_logs(aggregated_logs, global_step=self._global_step)
                or {}
            )
        logs.update(self._privacy.read_logs(int(self._global_step.numpy())))
        images = image_summaries.take_images(logs)
        if self._config.task.allow_image_summary:
            image_summaries.write_images(images, int(self._global_step.numpy()))
        logs.update(self._export_best(logs))
        return logs

    def _update_validation_loss(self, loss: tf.Tensor, inputs: Any) -> None:
        """Adds a replica's loss, unless its share of the last batch was empty."""
        if self._strategy.num_replicas_in_sync == 1:
            self._validation_loss.update_state(loss)
            return
        sizes = [tf.shape(leaf)[0] for leaf in tf.nest.flatten(inputs) if leaf.shape.rank != 0]
        has_examples = tf.constant(True) if not sizes else sizes[0] > 0
        self._validation_loss.update_state(
            tf.where(has_examples, loss, tf.zeros_like(loss)),
            sample_weight=tf.cast(has_examples, tf.float32),
        )

    def _prepare_training(self, dataset: Any) -> None:
        config, is_eager = self._config.trainer, self._config.runtime.run_eagerly
        self._build_from_batch(self._config.task.train_data, dataset)
        self._train_metrics = [
            *tf.nest.flatten(self._task.build_metrics(training=True)),
            *model_metrics.own_metrics(self._model),
        ]
        self._is_train_data_built = dataset is None
        if dataset is None:
            dataset = self._build_dataset(self._config.task.train_data)
        elif self._async is not None and isinstance(dataset, tf.data.Dataset):
            dataset = self.distribute_dataset(dataset)
        self._privacy.log_start(dataset)
        orbit.StandardTrainer.__init__(
            self,
            dataset,
            orbit.StandardTrainerOptions(
                use_tf_function=config.train_tf_function and not is_eager,
                use_tf_while_loop=config.train_tf_while_loop and not is_eager,
                use_tpu_summary_optimization=config.allow_tpu_summary and not is_eager,
            ),
        )

    def _prepare_evaluation(self, dataset: Any) -> None:
        config, is_eager = self._config.trainer, self._config.runtime.run_eagerly
        self._build_from_batch(self._config.task.validation_data, dataset)
        self._validation_metrics = [
            *tf.nest.flatten(self._task.build_metrics(training=False)),
            *model_metrics.own_metrics(self._model),
        ]
        if dataset is None:
            dataset = self._build_dataset(self._config.task.validation_data, is_evaluation=True)
        orbit.StandardEvaluator.__init__(
            self,
            dataset,
            orbit.StandardEvaluatorOptions(
                use_tf_function=config.eval_tf_function and not is_eager,
                use_tf_while_loop=config.eval_tf_while_loop and not is_eager,
            ),
        )

    def _build_from_batch(self, params: cfg.DataConfig, dataset: Any) -> None:
        """Makes the variables that need a batch: of `dataset`, or of a pipeline of its own."""
        if not trainer_setup.needs_batch(self._model, self._strategy):
            return
        if dataset is None:
            dataset = dataset_distribution.build_dataset(self._task.build_inputs, params)
        trainer_setup.build_from_batch(self._model, self._task, dataset, self._strategy)

    def _build_dataset(self, params: cfg.DataConfig, *, is_evaluation: bool = False) -> Any:
        """Builds the task's dataset, with the run's seed where the data has none of its own."""
        params = privacy_accounting.with_sampling(params, self._config)
        build = dataset_distribution.create_task_builder(
            self._strategy, self._task, params, self._config.runtime
        )
        if self._async is not None and is_evaluation:
            # The coordinator evaluates by itself, so that every example counts once.
            return build()
        return self.distribute_dataset(build)

    def _create_checkpoint(self, train: bool) -> tf.train.Checkpoint:
        per_worker = functools.partial(cluster_checkpoints.PerWorkerState, self._strategy)
        items = checkpoint_fit.model_items(self._model)
        if self._optimizer is not None:
            items["optimizer"] = self._optimizer
        if train:
            items["recovery"] = self._loop_record.state
        if train and self._async is None:
            is_external = (
                self._is_train_data_built and self._config.task.train_data.enable_tf_data_service
            )
            inspection = pipeline_inspection.inspect(self._train_dataset)
            if not is_external:
                inspection.warn()
            position = checkpoint_state.DataPosition(
                self.ensure_train_iterator,
                self._loop_record.count_drawn,
                self._restart_train_data,
                inspection=inspection,
                is_external=is_external,
            )
            items["data_position"] = per_worker(position, position.skip_batches)
            items["loop_state"] = per_worker(checkpoint_state.variables_state(self._loop_variables))
        if train:
            items["host_random_state"] = per_worker(checkpoint_state.HostRandomState(), warns=True)
        return tf.train.Checkpoint(
            global_step=self._global_step,
            random_state=per_worker(checkpoint_state.RandomState(self._model)),
            **task_state.checkpoint_items({"": self._task}, self._list_known, per_worker),
            **items,
        )

    def _list_known(self) -> list[Any]:
        """Returns the variables that are not the task's own, though it may hold them."""
        metrics = [*self._train_metrics, *self._validation_metrics]
        generators = checkpoint_state.seed_generators(self._model)
        return [
            *self._model.variables,
            *(generator.state for generator in generators),
            *(() if self._optimizer is None else self._optimizer.variables),
            *(variable for metric in metrics for variable in metric.variables),
        ]

    def _count_used(self) -> dict[str, int]:
        """Returns the batches that were trained on since the start of the run."""
        return {loop_record.SINGLE: int(self._global_step.numpy()) * self.elements_per_step}

    def _restart_train_data(self) -> Any:
        """Returns an iterator that stands at the beginning of the training data."""
        if not self._loop_record.has_begun:
            return self.ensure_train_iterator()
        if self._is_train_data_built:
            # A second iterator of the same dataset would shuffle in another order.
            self._train_dataset = self._build_dataset(self._config.task.train_data)
        self.train_iterator = None
        return self.ensure_train_iterator()

    def _loop_variables(self) -> list[Any]:
        """What a loop has added up so far; not zero only in a checkpoint of an interrupted loop."""
        metrics = [*self._train_metrics, self._train_loss]
        return [self._loop_position, *(part for metric in metrics for part in metric.variables)]

    def _current_learning_rate(self) -> Any:
        schedule = getattr(self._optimizer, "learning_rate_schedule", None)
        if schedule is not None:
            return schedule(self._optimizer.iterations)
        return self._optimizer.learning_rate

    def _export_best(self, logs: dict[str, Any]) -> dict[str, Any]:
        """Saves this step apart if `logs` are the best so far, and returns the best value."""
        exporter = self._checkpoint_exporter
        if exporter is None:
            return {}
        exporter.maybe_export_checkpoint(self._checkpoint, logs, int(self._global_step.numpy()))
        name = self._config.trainer.best_checkpoint_eval_metric
        best: Any = exporter.best_ckpt_logs
        for part in name.split("|"):
            best = best.get(part) if isinstance(best, dict) else None
        return {} if best is None else {f"best_{name}": best}


def _create_counter(name: str) -> tf.Variable:
    return tf.Variable(
        0,
        dtype=tf.int64,
        trainable=False,
        name=f"num_{name}",
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.SUM,
    )
