"""Estimators as trials: the real `tf.estimator`, trained batch by batch."""

import abc
import contextlib
import functools
import json
import logging
import os
import pathlib
import re
from collections.abc import Callable
from typing import Any, ClassVar, Final

import tensorflow as tf

from quintain import errors
from quintain.files import literal_paths
from quintain.input.diagnosis import data_faults
from quintain.trials import base_trial, trial_context
from quintain.trials.graphs import estimator_training, gradient_sums, graph_data
from quintain.trials.older import estimator_compat

v1 = tf.compat.v1

_PREFIX: Final = "model.ckpt"
_STATE_FILE: Final = "training_state.json"

_Hook: Any = v1.train.SessionRunHook

logger = logging.getLogger(__name__)


class EstimatorTrial(base_trial.Trial):
    """A trial made of a `tf.estimator.Estimator`, premade or custom, and its data.

    All methods may take the hyperparameters as an argument.
    """

    controller_module: ClassVar[str] = "quintain.trials.graphs.estimator_trial"

    @abc.abstractmethod
    def build_estimator(self, hparams: dict[str, Any]) -> Any:
        """Returns the estimator. Its `model_fn`, `params`, warm start and config are used."""

    @abc.abstractmethod
    def build_train_spec(self, hparams: dict[str, Any]) -> Any:
        """Returns a `tf.estimator.TrainSpec`.

        Its `input_fn` returns a `tf.data.Dataset`, which is repeated and whose position is kept, or
        tensors, which the user repeats and whose position is not kept. Its hooks run; `max_steps`
        is ignored.
        """

    @abc.abstractmethod
    def build_validation_spec(self, hparams: dict[str, Any]) -> Any:
        """Returns a `tf.estimator.EvalSpec`; `steps` batches are evaluated, all if it is None."""

    def build_serving_input_receiver_fns(
        self, hparams: dict[str, Any]
    ) -> dict[str, Callable[[], Any]]:
        """Returns functions by name: a SavedModel of each name is in every checkpoint."""
        del hparams
        return {}


def build_controller(
    trial_class: type[EstimatorTrial], context: trial_context.TrialContext
) -> "EstimatorTrialController":
    """Makes the trial and what drives it."""
    estimator_compat.load()
    gradient_sums.refuse_mixed_precision(context)
    context.optimizer_wrapper = functools.partial(gradient_sums.wrap, context=context)
    return EstimatorTrialController(base_trial.create_trial(trial_class, context), context)


class EstimatorTrialController(base_trial.TrialController):
    """Trains in one session from the first batch to the last; evaluates as estimators do."""

    def __init__(self, trial: EstimatorTrial, context: trial_context.TrialContext) -> None:
        """Builds the estimator and the specs; the graph follows at the first workload.

        Raises:
            TrialError: If a method of the trial returns something else.
        """
        super().__init__(trial, context)
        estimator = self._call("build_estimator", tf.estimator.Estimator)
        self._train_spec = self._call("build_train_spec", tf.estimator.TrainSpec)
        self._eval_spec = self._call("build_validation_spec", tf.estimator.EvalSpec)
        self._receivers = base_trial.call_with_hparams(
            trial.build_serving_input_receiver_fns, context
        )
        self._graphs: dict[str, tf.Graph] = {}  # of the last training and evaluation, by mode
        self._estimator = self._rebuild(estimator)
        self._batches = 0
        self._training: estimator_training.Training | None = None
        self._restored: tuple[str, bool] | None = None

    def list_validation_metrics(self) -> list[str]:
        """Builds the graph of the evaluation, which is not kept, and returns its metrics."""
        with tf.Graph().as_default():
            v1.train.create_global_step()
            mode = tf.estimator.ModeKeys.EVAL
            features, labels, _ = self._estimator._get_features_and_labels_from_input_fn(
                self._eval_spec.input_fn, mode
            )
            spec = self._estimator._call_model_fn(features, labels, mode, self._estimator.config)
        return [estimator_training.LOSS, v1.GraphKeys.GLOBAL_STEP, *spec.eval_metric_ops]

    def file_errors_named(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context in which errors about damaged data name their file."""
        return data_faults.data_errors_explained(self._graphs.values)

    def train(self, num_batches: int) -> base_trial.TrainResult:
        """Trains on the next batches."""
        training = self._ensure_training()
        batches = []
        num_inputs = 0
        for _ in range(num_batches):
            metrics, size = training.run(self._batches)
            self._batches += 1
            self.context.has_trained = True
            batches.append(metrics)
            num_inputs += size
        if training.is_stopped:
            self.context.set_stop_requested()
        return base_trial.TrainResult(num_inputs, batches)

    def count_batches(self) -> int:
        """Returns the batches that were trained on."""
        return self._batches

    def validate(self) -> base_trial.ValidationResult:
        """Evaluates `EvalSpec.steps` batches, or all."""
        training = self._ensure_training()
        scratch = pathlib.Path(self.context.spec.scratch_dir, "validation")
        scratch.mkdir(parents=True, exist_ok=True)
        folder = pathlib.Path(literal_paths.directory(scratch))
        path = training.save(str(folder / _PREFIX), self._batches)
        counter = _CountInputs(self._estimator)
        metrics = self._estimator.evaluate(
            self._eval_spec.input_fn,
            steps=self._eval_spec.steps,
            hooks=[*self._eval_spec.hooks, counter],
            checkpoint_path=path,
        )
        for name in os.listdir(folder):
            (folder / name).unlink()
        return base_trial.ValidationResult(dict(metrics), counter.num_inputs)

    def save(self, directory: str) -> None:
        """Writes variables, the data position, and a SavedModel for each serving function."""
        training = self._ensure_training()
        folder = pathlib.Path(literal_paths.directory(directory))
        path = training.save(str(folder / _PREFIX), self._batches, write_state=True)
        training.save_position(folder)
        (folder / _STATE_FILE).write_text(json.dumps({"batches": self._batches}))
        for name, receiver in self._receivers.items():
            self._estimator.export_saved_model(str(folder / name), receiver, checkpoint_path=path)
        training.tell_hooks("on_checkpoint_end", folder)

    def restore(self, directory: str, *, is_warm_start: bool) -> None:
        """Reads the state that `save` wrote; the graph is built when it is first needed."""
        index = re.compile(re.escape(_PREFIX) + r"-\d+\.index")
        found = [name for name in os.listdir(directory) if index.fullmatch(name)]
        if len(found) != 1:
            raise errors.CheckpointError(f"{directory}: there is no checkpoint of an estimator.")
        prefix = os.path.join(directory, found[0].removesuffix(".index"))
        self._restored = (literal_paths.checkpoint(prefix), is_warm_start)
        if not is_warm_start:
            state = json.loads(pathlib.Path(directory, _STATE_FILE).read_text())
            self._batches = state["batches"]
        self._ensure_training()

    def close(self) -> None:
        """Ends the session, so that hooks see the end."""
        if self._training is not None:
            self._training.close()
            self._training.tell_hooks("on_trial_close")

    def _ensure_training(self) -> estimator_training.Training:
        if self._training is None:
            self._training = estimator_training.Training(
                self._estimator, self._train_spec, self.context, self._restored
            )
            if self._restored is not None and not self._restored[1]:
                folder = pathlib.Path(self._restored[0]).parent
                self._training.restore_position(folder, self._batches)
                self._training.tell_hooks("on_checkpoint_load", folder)
        return self._training

    def _call(self, method: str, kind: type[Any]) -> Any:
        value = base_trial.call_with_hparams(getattr(self.trial, method), self.context)
        if not isinstance(value, kind):
            raise errors.TrialError(
                f"{base_trial.describe_method(self.trial, method)} returned {value!r}, expected a "
                f"tf.estimator.{kind.__name__}."
            )
        return value

    def _require_end(self, data: Any) -> None:
        """Checks that a dataset is not known to go on for ever."""
        if not isinstance(data, tf.compat.v2.data.Dataset):
            return
        with v1.Session() as session:
            size = session.run(data.cardinality())
        if size == tf.data.INFINITE_CARDINALITY:
            raise errors.TrialError(
                f"{base_trial.describe_method(self.trial, 'build_validation_spec')}: the dataset "
                "never ends, and EvalSpec.steps is None, which evaluates all of it. Give a number "
                "of steps, or leave .repeat() out."
            )

    def _rebuild(self, estimator: Any) -> Any:
        """Returns an estimator of the same model that saves and logs where the platform wants."""
        spec = self.context.spec
        session = v1.ConfigProto(allow_soft_placement=True)
        if estimator.config.session_config is not None:
            session.CopyFrom(estimator.config.session_config)
        graph_data.limit_threads(session, spec.num_threads)
        config = tf.estimator.RunConfig(
            model_dir=os.path.join(literal_paths.directory(spec.scratch_dir), "estimator"),
            tf_random_seed=self.context.get_trial_seed(),
            session_config=session,
            save_checkpoints_steps=None,
            save_checkpoints_secs=None,
            save_summary_steps=estimator.config.save_summary_steps,
            log_step_count_steps=None,
        )
        rebuilt = tf.estimator.Estimator(
            model_fn=estimator._model_fn,
            config=config,
            params=estimator.params or None,
            warm_start_from=estimator._warm_start_settings,
        )
        original = rebuilt._call_model_fn

        def call_model_fn(features: Any, labels: Any, mode: Any, config: Any) -> Any:
            rebuilt.quintain_batch_size = graph_data.batch_size(features)
            return original(features, labels, mode, config)

        rebuilt._call_model_fn = call_model_fn
        original_input = rebuilt._call_input_fn

        def call_input_fn(input_fn: Callable[..., Any], mode: Any, *args: Any) -> Any:
            data = original_input(input_fn, mode, *args)
            if mode not in self._graphs:
                data_faults.check_files(data)
            self._graphs[mode] = tf.get_default_graph()
            if mode != tf.estimator.ModeKeys.EVAL:
                return data
            if self._eval_spec.steps is None:
                self._require_end(data)
            return _without_autotuning(data)

        rebuilt._call_input_fn = call_input_fn
        return rebuilt


def _without_autotuning(data: Any) -> Any:
    """Returns a dataset whose iterators have no thread that the end of an evaluation waits for.

    Estimators open and close the session of an evaluation themselves. Stages whose parallelism is
    left to TensorFlow get as much as there are processors, and 16 at most.
    """
    if not isinstance(data, tf.compat.v2.data.Dataset):
        return data
    if data.options().autotune.enabled is not None:  # The user has decided.
        return data
    options = tf.data.Options()
    options.autotune.enabled = False
    return data.with_options(options)


class _CountInputs(_Hook):
    """Counts the examples of an evaluation."""

    def __init__(self, estimator: Any) -> None:
        self._estimator = estimator
        self.num_inputs = 0

    def before_run(self, run_context: Any) -> Any:
        del run_context
        return v1.train.SessionRunArgs(self._estimator.quintain_batch_size)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        del run_context
        self.num_inputs += int(run_values.results)
