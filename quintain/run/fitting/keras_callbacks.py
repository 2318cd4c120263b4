"""Keras callbacks of `fit`, which may read the training and may not change it."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

import keras
import numpy as np
from typing_extensions import override

from quintain import errors, orbit
from quintain.orbit import loop_schedule
from quintain.run import history, run_options
from quintain.run.events import prepared_action
from quintain.settings import config_definitions as cfg

_INSTEAD: Final = {
    "EarlyStopping": "give `patience`",
    "ModelCheckpoint": "leave it out; checkpoints are kept, and the best one with `monitor`",
    "BackupAndRestore": "leave it out; the same call goes on with the run",
    "TensorBoard": "leave it out; summaries are written",
    "CSVLogger": "leave it out; training.jsonl and evaluations.jsonl hold the metrics",
    "ProgbarLogger": "leave it out; progress is shown",
    "History": "use what this returns",
    "TerminateOnNaN": "leave it out; a loss that is no number ends the run",
    "LearningRateScheduler": "compile the optimizer with a LearningRateSchedule",
    "ReduceLROnPlateau": "compile the optimizer with a LearningRateSchedule",
}
_OF_BATCHES: Final = tuple(
    f"on_{kind}batch_{when}" for kind in ("", "train_", "test_") for when in ("begin", "end")
)


def check(callbacks: Sequence[Any]) -> None:
    """Refuses callbacks that change training, or that are called for batches.

    Raises:
        ConfigError: With what to use instead of each.
    """
    advice = "\n".join(
        f"  {type(one).__name__}: {_advise(one)}." for one in callbacks if _advise(one)
    )
    if advice:
        raise errors.ConfigError(
            "callbacks: only callbacks that read, and do so between epochs, are called here, "
            f"because a run that goes on could not restore what others did. Instead of\n{advice}"
        )


def _advise(callback: Any) -> str:
    """Returns what to use instead of a callback; empty if it can be called."""
    if not isinstance(callback, keras.callbacks.Callback):
        return "give a keras.callbacks.Callback"
    for kind in type(callback).__mro__:
        if kind.__module__.startswith("keras.") and kind.__name__ in _INSTEAD:
            return _INSTEAD[kind.__name__]
    of_batches = [name for name in _OF_BATCHES if _has_own(callback, name)]
    if of_batches:
        return (
            f"give `train_actions` or `eval_actions`, functions of the metrics by name, for its "
            f"{', '.join(of_batches)}"
        )
    return ""


def _has_own(callback: keras.callbacks.Callback, name: str) -> bool:
    """Returns whether a callback overrides a method, in its class or as an attribute."""
    function = getattr(getattr(callback, name), "__func__", None)
    return function is not getattr(keras.callbacks.Callback, name)


class Calls(prepared_action.PreparedAction):
    """Calls Keras callbacks from the training loop, in Keras' order and with Keras' logs.

    An epoch that a stopped run had not finished begins again for them.
    """

    def __init__(
        self,
        callbacks: Sequence[keras.callbacks.Callback],
        built: Sequence[keras.Model],
        steps_per_epoch: int,
        config: cfg.TrainerConfig,
        model_dir: str,
        *,
        is_validated: bool,
    ) -> None:
        """Stores what is called when.

        Args:
            callbacks: The callbacks.
            built: Holds the model once it is built.
            steps_per_epoch: Steps of an epoch.
            config: Steps and intervals of the run.
            model_dir: Directory of the run.
            is_validated: Whether the run has evaluations.

        Raises:
            ConfigError: If loops don't end with epochs.
        """
        if callbacks and steps_per_epoch % config.steps_per_loop:
            raise errors.ConfigError(
                f"trainer.steps_per_loop: got {config.steps_per_loop}, but callbacks need loops "
                f"that end with epochs of {steps_per_epoch} steps. Leave it out."
            )
        self._callbacks = callbacks
        self._built = built
        self._steps_per_epoch = steps_per_epoch
        self._config = config
        self._model_dir = model_dir
        self._is_validated = is_validated
        self._global_step: Any = None
        self._history = history.History()
        self._last_step = 0

    def extend(self, options: run_options.RunOptions) -> run_options.RunOptions:
        """Returns options of a run that makes these calls, too."""
        if not self._callbacks:
            return options

        def build_controller(**arguments: Any) -> orbit.Controller:
            self._global_step = arguments["global_step"]
            return orbit.Controller(**arguments)

        return dataclasses.replace(
            options,
            train_actions=[*(options.train_actions or ()), self],
            eval_actions=[*(options.eval_actions or ()), self._after_evaluation],
            controller_cls=build_controller,
        )

    @override
    def begin(self) -> None:
        step = self._last_step = int(self._global_step)
        self._history = history.read_history(self._model_dir)
        epochs = -(-self._config.train_steps // self._steps_per_epoch)
        for callback in self._callbacks:
            callback.set_params({"epochs": epochs, "steps": self._steps_per_epoch, "verbose": 0})
            callback.set_model(self._built[-1])
        self._built[-1].stop_training = False
        self._call("on_train_begin", {})
        is_measured = any(name.startswith("val_") for name in self._history.at(step))
        if step and self._is_evaluated(step) and not is_measured:
            self._call("on_test_begin", {})  # It was stopped before this evaluation.
        elif step < self._config.train_steps:
            self._call("on_epoch_begin", step // self._steps_per_epoch, {})

    @override
    def __call__(self, output: Mapping[str, Any]) -> None:
        before, step = self._last_step, int(self._global_step)
        self._last_step = step
        if step <= before:
            return  # An action went back to an earlier step.
        self._history.add_loop(step, output)
        if self._is_evaluated(step):
            self._call("on_test_begin", {})
        else:
            self._end_epoch(step)

    def end(self) -> None:
        """Tells the callbacks that training has ended."""
        self._call("on_train_end", self._history.at(self._last_step))

    def _after_evaluation(self, output: Mapping[str, Any]) -> None:
        step = self._last_step
        self._history.add_evaluation(step, output)
        logs = self._history.at(step).items()
        evaluated = {
            name.removeprefix("val_"): value for name, value in logs if name.startswith("val_")
        }
        self._call("on_test_end", evaluated)
        self._end_epoch(step)

    def _is_evaluated(self, step: int) -> bool:
        interval = self._config.validation_interval
        return self._is_validated and loop_schedule.is_evaluation_step(
            step, self._config.train_steps, interval
        )

    def _end_epoch(self, step: int) -> None:
        epoch, steps_left = divmod(step, self._steps_per_epoch)
        if steps_left:
            return
        self._call("on_epoch_end", epoch - 1, self._history.at(step))
        if step < self._config.train_steps:
            self._call("on_epoch_begin", epoch, {})

    def _call(self, name: str, *arguments: Any) -> None:
        """Calls a method of those callbacks that have it.

        Raises:
            ConfigError: If one changes the training.
        """
        for callback in self._callbacks:
            if not _has_own(callback, name):
                continue
            before = self._read_state()
            getattr(callback, name)(*arguments)
            after = self._read_state()
            changed = [path for path in after if after[path] != before.get(path)]
            if changed:
                raise errors.ConfigError(
                    f"callbacks: {type(callback).__name__}.{name} changed {errors.show(changed)}, "
                    "but callbacks may only read, because a run that goes on could not restore "
                    "what they did. Leave it out; `patience` ends training, and a "
                    "LearningRateSchedule changes the rate."
                )

    def _read_state(self) -> dict[str, Any]:
        """Returns what callbacks may not change; metrics start anew with each loop."""
        model = self._built[-1]
        metrics = {id(variable) for variable in model.metrics_variables}
        variables = [*model.variables, *model.optimizer.variables]
        state = {
            one.path: np.asarray(one.numpy()).tobytes()
            for one in variables
            if id(one) not in metrics
        }
        return {**state, "stop_training": model.stop_training}
