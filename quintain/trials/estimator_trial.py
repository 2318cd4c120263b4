"""Estimators as trials: the real `tf.estimator`, trained batch by batch."""

import abc
import contextlib
import json
import logging
import os
import pathlib
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.core.input import data_faults, pipeline_inspection
from quintain.orbit import literal_paths
from quintain.trials import (
    background_calls,
    base_trial,
    estimator_compat,
    repeatable_random,
    update_order,
)

v1 = tf.compat.v1

_PREFIX: Final = "model.ckpt"
_ITERATOR: Final = "iterator"
_STATE_FILE: Final = "training_state.json"
_LOSS: Final = "loss"

_Hook: Any = v1.train.SessionRunHook

logger = logging.getLogger(__name__)


class EstimatorTrial(base_trial.Trial):
    """A trial made of a `tf.estimator.Estimator`, premade or custom, and its data.

    All methods may take the hyperparameters as an argument.
    """

    controller_module: ClassVar[str] = "quintain.trials.estimator_trial"

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
    trial_class: type[EstimatorTrial], context: base_trial.TrialContext
) -> "EstimatorTrialController":
    """Makes the trial and what drives it."""
    estimator_compat.load()
    return EstimatorTrialController(base_trial.create_trial(trial_class, context), context)


class EstimatorTrialController(base_trial.TrialController):
    """Trains in one session from the first batch to the last; evaluates as estimators do."""

    def __init__(self, trial: EstimatorTrial, context: base_trial.TrialContext) -> None:
        """Builds the estimator and the specs; the graph follows at the first workload.

        Raises:
            TrialError: If a method of the trial returns something else.
        """
        super().__init__(trial, context)
        self._train_spec = self._call("build_train_spec", tf.estimator.TrainSpec)
        self._eval_spec = self._call("build_validation_spec", tf.estimator.EvalSpec)
        self._receivers = base_trial.call_with_hparams(
            trial.build_serving_input_receiver_fns, context
        )
        self._graphs: dict[str, tf.Graph] = {}  # of the last training and evaluation, by mode
        self._estimator = self._rebuild(self._call("build_estimator", tf.estimator.Estimator))
        self._batches = 0
        self._training: _Training | None = None
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
        return [_LOSS, v1.GraphKeys.GLOBAL_STEP, *spec.eval_metric_ops]

    def naming_files(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context in which errors about damaged data name their file."""
        return data_faults.naming(self._graphs.values)

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

    def _ensure_training(self) -> "_Training":
        if self._training is None:
            self._training = _Training(
                self._estimator, self._train_spec, self.context, self._restored
            )
            if self._restored is not None and not self._restored[1]:
                folder = pathlib.Path(self._restored[0]).parent
                self._training.restore_position(folder, self._batches)
        return self._training

    def _call(self, method: str, kind: type[Any]) -> Any:
        value = base_trial.call_with_hparams(getattr(self.trial, method), self.context)
        if not isinstance(value, kind):
            raise errors.TrialError(
                f"{base_trial.describe_method(self.trial, method)} returned {value!r}, expected a "
                f"tf.estimator.{kind.__name__}."
            )
        return value

    def _rebuild(self, estimator: Any) -> Any:
        """Returns an estimator of the same model that saves and logs where the platform wants."""
        spec = self.context.spec
        session = v1.ConfigProto(allow_soft_placement=True)
        if estimator.config.session_config is not None:
            session.CopyFrom(estimator.config.session_config)
        if spec.num_threads is not None:
            session.intra_op_parallelism_threads = (
                session.intra_op_parallelism_threads or spec.num_threads
            )
            session.inter_op_parallelism_threads = (
                session.inter_op_parallelism_threads or spec.num_threads
            )
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
            rebuilt.quintain_batch_size = _batch_size(features)
            return original(features, labels, mode, config)

        rebuilt._call_model_fn = call_model_fn
        original_input = rebuilt._call_input_fn

        def call_input_fn(input_fn: Callable[..., Any], mode: Any, *args: Any) -> Any:
            data = original_input(input_fn, mode, *args)
            if mode not in self._graphs:
                data_faults.check_files(data)
            self._graphs[mode] = tf.get_default_graph()
            is_evaluated = mode == tf.estimator.ModeKeys.EVAL
            return _without_autotuning(data) if is_evaluated else data

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


class _Training:
    """The graph and the session of the training."""

    def __init__(
        self,
        estimator: Any,
        spec: Any,
        context: base_trial.TrialContext,
        restored: tuple[str, bool] | None,
    ) -> None:
        """Builds the graph and opens the session, from a checkpoint if there is one."""
        self._iterator: Any = None
        self._is_saved = False
        self._graph = tf.Graph()
        with self._graph.as_default():
            v1.set_random_seed(context.get_trial_seed())
            counter = v1.train.create_global_step()
            features, labels = self._build_inputs(estimator, spec.input_fn)
            self._step = v1.placeholder_with_default(tf.constant(0, tf.int64), [], "random_step")
            with repeatable_random.stepwise(self._step):
                self._spec = estimator._call_model_fn(
                    features, labels, tf.estimator.ModeKeys.TRAIN, estimator.config
                )
            self._fetches = {
                "train_op": self._spec.train_op,
                "loss": self._spec.loss,
                "size": estimator.quintain_batch_size,
                "summaries": _merge_scalars(),
            }
            update_order.measure_before_updates(
                [self._fetches["summaries"], self._fetches["loss"]], self._spec.train_op
            )
            self._position_saver = None
            if self._is_saved:
                self._position_saver = v1.train.Saver(
                    [tf.data.experimental.make_saveable_from_iterator(self._iterator)]
                )
            scaffold = self._spec.scaffold or v1.train.Scaffold()
            warm_saver = None
            if restored is not None and restored[1]:
                kept = [one for one in v1.global_variables() if one is not counter]
                warm_saver = v1.train.Saver(kept)
            elif restored is None and estimator._warm_start_settings:
                v1.train.warm_start(*estimator._warm_start_settings)
            self._capture = _CaptureSession()
            own = (*spec.hooks, *self._spec.training_hooks, *self._spec.training_chief_hooks)
            self._hooks = [_WatchedHook(hook) for hook in own]
            self._session = v1.train.MonitoredSession(
                v1.train.ChiefSessionCreator(
                    scaffold,
                    config=estimator.config.session_config,
                    checkpoint_filename_with_path=(
                        restored[0] if restored is not None and warm_saver is None else None
                    ),
                ),
                [*self._hooks, self._capture],
            )
            self._saver = scaffold.saver
            if warm_saver is not None and restored is not None:
                warm_saver.restore(self._capture.session, restored[0])

    @property
    def is_stopped(self) -> bool:
        """Whether a hook asked for the end."""
        return any(hook.is_stop_requested for hook in self._hooks)

    def run(self, step: int) -> tuple[dict[str, Any], int]:
        """Trains on one batch and returns its metrics and its size."""
        try:
            values = self._session.run(self._fetches, {self._step: step})
        except tf.errors.OutOfRangeError as error:
            raise errors.TrialError(
                "The training data ended. An input_fn that returns tensors has to repeat its data; "
                "datasets are repeated."
            ) from error
        metrics = _read_summaries(values["summaries"])
        metrics[_LOSS] = float(np.mean(values["loss"]))
        return metrics, int(values["size"])

    def save(self, path: str, step: int, *, write_state: bool = False) -> str:
        """Writes the variables and returns the prefix of the files."""
        with self._graph.as_default():
            prefix: str = self._saver.save(
                self._capture.session,
                path,
                global_step=step,
                write_meta_graph=write_state,
                write_state=False,
            )
        if write_state:
            # With a relative path: the directory is moved when the checkpoint is complete.
            v1.train.update_checkpoint_state(os.path.dirname(path), os.path.basename(prefix))
        return prefix

    def save_position(self, folder: pathlib.Path) -> None:
        """Writes where in the data the training is, if that can be written."""
        if self._position_saver is None:
            return
        try:
            self._position_saver.save(
                self._capture.session,
                str(folder / _ITERATOR),
                write_meta_graph=False,
                write_state=False,
            )
        except (tf.errors.OpError, ValueError) as error:
            self._position_saver = None
            logger.warning("The position in the training data can't be saved: %s", error)

    def restore_position(self, folder: pathlib.Path, batches: int) -> None:
        """Goes to where the training was."""
        if (folder / f"{_ITERATOR}.index").exists() and self._position_saver is not None:
            self._position_saver.restore(self._capture.session, str(folder / _ITERATOR))
        elif self._iterator is not None:
            for _ in range(batches):
                self._capture.session.run(self._next_op)
        elif batches:
            logger.warning(
                "The input_fn returns tensors: the training data begin anew after a restart. "
                "Return a tf.data.Dataset to go on where it was."
            )

    def close(self) -> None:
        """Ends the session. Returns when the hooks have seen the end."""
        closing = background_calls.start(self._session.close)
        closing.add_done_callback(lambda _: self._capture.has_ended.set())
        self._capture.has_ended.wait()
        if closing.done():
            closing.result()

    def _build_inputs(self, estimator: Any, input_fn: Callable[..., Any]) -> tuple[Any, Any]:
        """Returns features and labels of a batch."""
        data = estimator._call_input_fn(input_fn, tf.estimator.ModeKeys.TRAIN)
        if isinstance(data, tf.compat.v2.data.Dataset):
            repeated = data.repeat()
            inspection = pipeline_inspection.inspect(repeated)
            inspection.warn()
            self._is_saved = inspection.is_saved
            self._iterator = v1.data.make_initializable_iterator(repeated)
            v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, self._iterator.initializer)
            data = self._iterator.get_next()
            self._next_op = tf.nest.flatten(data)[0].op
        if isinstance(data, tuple | list):
            if len(data) != 2:
                raise errors.TrialError(
                    f"build_train_spec(): the input_fn gave {len(data)} parts, expected features "
                    "and labels."
                )
            return data[0], data[1]
        return data, None


class _WatchedHook(_Hook):
    """A user's hook that may ask for the end without ending the workload."""

    def __init__(self, hook: Any) -> None:
        self._hook = hook
        self.is_stop_requested = False

    def begin(self) -> None:
        """Passes it on."""
        self._hook.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Passes it on."""
        self._hook.after_create_session(session, coord)

    def before_run(self, run_context: Any) -> Any:
        """Passes it on, and takes a request to stop."""
        return self._hook.before_run(_RunContext(run_context, self))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Passes it on, and takes a request to stop."""
        self._hook.after_run(_RunContext(run_context, self), run_values)

    def end(self, session: Any) -> None:
        """Passes it on."""
        self._hook.end(session)


class _RunContext:
    """What a hook sees of a run; a request to stop goes to its `_WatchedHook`."""

    def __init__(self, run_context: Any, hook: _WatchedHook) -> None:
        self._run_context = run_context
        self._hook = hook

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run_context, name)

    @property
    def stop_requested(self) -> bool:
        """Whether the hook asked for the end."""
        return self._hook.is_stop_requested

    def request_stop(self) -> None:
        """Asks for the end after the workload."""
        self._hook.is_stop_requested = True


class _CaptureSession(_Hook):
    """Keeps the session below the monitored one; it comes last."""

    session: Any = None

    def __init__(self) -> None:
        self.has_ended = threading.Event()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Keeps the session."""
        del coord
        self.session = session

    def end(self, session: Any) -> None:
        """Tells that the end of the training has reached all hooks."""
        del session
        self.has_ended.set()


class _CountInputs(_Hook):
    """Counts the examples of an evaluation."""

    def __init__(self, estimator: Any) -> None:
        self._estimator = estimator
        self.num_inputs = 0

    def before_run(self, run_context: Any) -> Any:
        """Asks for the size of the batch."""
        del run_context
        return v1.train.SessionRunArgs(self._estimator.quintain_batch_size)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Adds it."""
        del run_context
        self.num_inputs += int(run_values.results)


def _batch_size(features: Any) -> tf.Tensor:
    if isinstance(features, Mapping):
        features = [features[name] for name in sorted(features)]
    first = tf.nest.flatten(features)[0]
    shape = first.dense_shape if isinstance(first, tf.SparseTensor) else tf.shape(first)
    return shape[0]


def _merge_scalars() -> tf.Tensor:
    """Returns all scalar summaries of the graph as one tensor."""
    scalars = [
        summary
        for summary in v1.get_collection(v1.GraphKeys.SUMMARIES)
        if summary.op.type == "ScalarSummary"
    ]
    return v1.summary.merge(scalars) if scalars else tf.constant(b"")


def _read_summaries(serialized: bytes) -> dict[str, Any]:
    summary = v1.Summary.FromString(serialized)
    return {value.tag: value.simple_value for value in summary.value}
