"""Graph and session in which an estimator is trained, batch by batch."""

import logging
import os
import pathlib
import threading
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.input.diagnosis import pipeline_inspection
from quintain.trials import trial_context
from quintain.trials.graphs import graph_variables, repeatable_random, update_order
from quintain.trials.process import background_calls

v1 = tf.compat.v1

LOSS: Final = "loss"
"""Name of the loss among the metrics."""

_ITERATOR: Final = "iterator"

_Hook: Any = v1.train.SessionRunHook

logger = logging.getLogger(__name__)


class Training:
    """The graph and the session of the training."""

    def __init__(
        self,
        estimator: Any,
        spec: Any,
        context: trial_context.TrialContext,
        restored: tuple[str, bool] | None,
    ) -> None:
        """Builds the graph and opens the session, from a checkpoint if there is one."""
        self._iterator: Any = None
        self._is_saved = False
        self._graph = tf.Graph()
        with self._graph.as_default():
            v1.set_random_seed(context.get_trial_seed())
            v1.train.create_global_step()
            features, labels = self._build_inputs(estimator, spec.input_fn)
            self._step = v1.placeholder_with_default(tf.constant(0, tf.int64), [], "random_step")
            with repeatable_random.random_ops_by_step(self._step):
                self._spec = estimator._call_model_fn(
                    features, labels, tf.estimator.ModeKeys.TRAIN, estimator.config
                )
            _require_wrapped(context)
            self._fetches = {
                "train_op": self._spec.train_op,
                "loss": self._spec.loss,
                "size": estimator.quintain_batch_size,
                "summaries": _merge_scalars(),
            }
            update_order.measure_before_updates(
                [self._fetches["summaries"], self._fetches["loss"]], self._spec.train_op
            )
            self._local_variables = graph_variables.LocalVariables()
            self._position_saver = None
            if self._is_saved:
                self._position_saver = v1.train.Saver(
                    [tf.data.experimental.make_saveable_from_iterator(self._iterator)]
                )
            scaffold = self._spec.scaffold or v1.train.Scaffold()
            warm_saver = None
            if restored is not None and restored[1]:
                warm_saver = graph_variables.create_warm_saver()
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
        """True if a hook asked for the end."""
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
        metrics[LOSS] = float(np.mean(values["loss"]))
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
        """Writes local variables, and where in the data the training is, if that can be written."""
        self._local_variables.save(self._capture.session, folder)
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
        self._local_variables.restore(self._capture.session, folder)
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

    def tell_hooks(self, event: str, *arguments: Any) -> None:
        """Calls a method of the hooks of the user's that have it: those that are `RunHook`s."""
        for hook in self._hooks:
            hook.tell(event, *arguments)

    def close(self) -> None:
        """Ends the session. Returns when the hooks have seen the end."""
        closing = background_calls.start(self._session.close)
        closing.add_done_callback(lambda _: self._capture.has_ended.set())
        self._capture.has_ended.wait()
        if closing.done():
            closing.result()

    def _build_inputs(self, estimator: Any, input_fn: Callable[..., Any]) -> tuple[Any, Any]:
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
        self._hook.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._hook.after_create_session(session, coord)

    def before_run(self, run_context: Any) -> Any:
        return self._hook.before_run(_RunContext(run_context, self))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._hook.after_run(_RunContext(run_context, self), run_values)

    def end(self, session: Any) -> None:
        """Passes it on."""
        self._hook.end(session)

    def tell(self, event: str, *arguments: Any) -> None:
        """Passes an event on that not every hook knows."""
        method = getattr(self._hook, event, None)
        if method is not None:
            method(*arguments)


class _RunContext:
    """Run context of a hook; a request to stop goes to its `_WatchedHook`."""

    def __init__(self, run_context: Any, hook: _WatchedHook) -> None:
        self._run_context = run_context
        self._hook = hook

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run_context, name)

    @property
    def stop_requested(self) -> bool:
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
        del coord
        self.session = session

    def end(self, session: Any) -> None:
        """Tells that the end of the training has reached all hooks."""
        del session
        self.has_ended.set()


def _require_wrapped(context: trial_context.TrialContext) -> None:
    """Checks that gradients are added up if they are to be."""
    num_batches = context.get_optimization("aggregation_frequency") or 1
    if num_batches > 1 and not context.has_wrapped_optimizer:
        raise errors.TrialError(
            f"optimizations.aggregation_frequency: got {num_batches}, but the optimizer of the "
            "estimator is not wrapped; give it quintain.trials.wrap_optimizer(optimizer) instead."
        )


def _merge_scalars() -> tf.Tensor:
    scalars = [
        summary
        for summary in v1.get_collection(v1.GraphKeys.SUMMARIES)
        if summary.op.type == "ScalarSummary"
    ]
    return v1.summary.merge(scalars) if scalars else tf.constant(b"")


def _read_summaries(serialized: bytes) -> dict[str, Any]:
    summary = v1.Summary.FromString(serialized)
    return {value.tag: value.simple_value for value in summary.value}
