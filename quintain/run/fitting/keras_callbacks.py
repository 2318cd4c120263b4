"""Keras callbacks of `fit`, which may read the training and may not change it."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

import keras
import numpy as np
from typing_extensions import override

from quintain import errors, orbit
from quintain.run import history

_KEEP: Final = "leave it out; checkpoints are kept, and the best one with `monitor`"
_SCHEDULE: Final = "compile the optimizer with a LearningRateSchedule"
_INSTEAD: Final = {
    "BackupAndRestore": "leave it out; the same call goes on with the run",
    "CSVLogger": 'give `trainer={"loggers": [{"type": "csv"}]}`',
    "EarlyStopping": "give `patience`",
    "History": "use what this returns",
    "LearningRateScheduler": _SCHEDULE,
    "ModelCheckpoint": _KEEP,
    "OrbaxCheckpoint": _KEEP,
    "ProgbarLogger": "leave it out; progress is shown",
    "ReduceLROnPlateau": _SCHEDULE,
    "SwapEMAWeights": "leave it out; evaluations are of the weights that are trained",
    "TensorBoard": "leave it out; summaries are written",
    "TerminateOnNaN": "leave it out; a loss that is no number ends the run",
}
_OF_BATCHES: Final = tuple(
    f"on_{kind}batch_{when}" for kind in ("", "train_", "test_") for when in ("begin", "end")
)


def check(callbacks: Any) -> list[keras.callbacks.Callback]:
    """Returns callbacks as a list, unless one changes the training or is called for batches.

    Args:
        callbacks: One, or nested lists of them; None is none.

    Raises:
        ConfigError: With what to use instead of each.
    """
    found = keras.tree.flatten(callbacks or [])
    advice = [f"  {type(one).__name__}: {text}." for one in found if (text := _advise(one))]
    if advice:
        raise errors.ConfigError(
            "callbacks: only callbacks that read, and do so between epochs, are called here, "
            "because a run that goes on could not restore what others did. Instead of\n"
            + "\n".join(advice)
        )
    return found


def _advise(callback: Any) -> str:
    """Returns what to use instead of a callback; empty if it can be called."""
    if not isinstance(callback, keras.callbacks.Callback):
        return "give a keras.callbacks.Callback"
    for kind in type(callback).__mro__:
        if kind.__module__.startswith("keras.") and kind.__name__ in _INSTEAD:
            return _INSTEAD[kind.__name__]
    of_batches = ", ".join(name for name in _OF_BATCHES if _has_own(callback, name))
    return of_batches and (
        "give `train_actions` or `eval_actions`, functions of the metrics by name, for its "
        f"{of_batches}"
    )


def _has_own(callback: keras.callbacks.Callback, name: str) -> bool:
    """Returns whether a callback overrides a method, in its class or as an attribute."""
    function = getattr(getattr(callback, name), "__func__", None)
    return function is not getattr(keras.callbacks.Callback, name)


@dataclasses.dataclass
class CallbackReporter(orbit.Reporter):
    """Calls Keras callbacks in Keras' order and with Keras' logs, beside another reporter.

    An epoch that a stopped run had not finished begins again for them.
    """

    reporter: orbit.Reporter
    """Told everything as well."""

    callbacks: Sequence[keras.callbacks.Callback]
    """The callbacks."""

    built: Sequence[keras.Model]
    """Holds the model once it is built."""

    model_dir: str
    """Directory of the run."""

    steps_per_epoch: int
    """Steps of an epoch, which is a training loop."""

    has_evaluations: bool
    """Whether there is one after each epoch."""

    _history: history.History = dataclasses.field(default_factory=history.History)
    _target_steps: int = 0

    @override
    def on_train_begin(self, step: int, target_steps: int) -> None:
        self.reporter.on_train_begin(step, target_steps)
        self._history = history.read_history(self.model_dir)
        self._target_steps = target_steps
        epochs = -(-target_steps // self.steps_per_epoch)
        for callback in self.callbacks:
            callback.set_params({"epochs": epochs, "steps": self.steps_per_epoch, "verbose": 0})
            callback.set_model(self.built[-1])
        self.built[-1].stop_training = False
        self._call("on_train_begin", {})
        is_epoch = step > 0 and step % self.steps_per_epoch == 0
        if is_epoch and self.has_evaluations and "val_loss" not in self._history.at(step):
            return  # The run was stopped before this evaluation, and begins with it.
        self._begin_epoch(step)

    @override
    def on_train_loop(
        self,
        step: int,
        target_steps: int,
        output: Mapping[str, Any],
        loop_secs: float,
        num_steps: int,
    ) -> None:
        self.reporter.on_train_loop(step, target_steps, output, loop_secs, num_steps)
        self._history.add_loop(step, output)
        if not self.has_evaluations:
            self._end_epoch(step)

    @override
    def on_eval_begin(self, step: int, num_steps: int) -> None:
        self.reporter.on_eval_begin(step, num_steps)
        self._call("on_test_begin", {})

    @override
    def on_eval_end(self, step: int, output: Mapping[str, Any], secs: float) -> None:
        self.reporter.on_eval_end(step, output, secs)
        self._history.add_evaluation(step, output)
        logs = self._history.at(step).items()
        tested = {name[4:]: value for name, value in logs if name.startswith("val_")}
        self._call("on_test_end", tested)
        self._end_epoch(step)

    @override
    def on_eval_step(self, done: int, num_steps: int) -> None:
        self.reporter.on_eval_step(done, num_steps)

    @override
    def on_checkpoint(self, step: int, path: str) -> None:
        self.reporter.on_checkpoint(step, path)

    @override
    def on_restore(self, step: int, path: str) -> None:
        self.reporter.on_restore(step, path)

    @override
    def on_message(self, text: str) -> None:
        self.reporter.on_message(text)

    @override
    def on_train_end(self, step: int) -> None:
        self.reporter.on_train_end(step)

    def end(self) -> None:
        """Tells the callbacks that training has ended, and not by an error or a signal."""
        if self._target_steps:
            self._call("on_train_end", self._history.at(self._history.steps))

    def _begin_epoch(self, step: int) -> None:
        if step < self._target_steps:
            self._call("on_epoch_begin", step // self.steps_per_epoch, {})

    def _end_epoch(self, step: int) -> None:
        epoch, steps_left = divmod(step, self.steps_per_epoch)
        if not steps_left:
            self._call("on_epoch_end", epoch - 1, self._history.at(step))
            self._begin_epoch(step)

    def _call(self, name: str, *arguments: Any) -> None:
        """Calls a method of those callbacks that have it.

        Raises:
            ConfigError: If one changes the training.
        """
        for callback in self.callbacks:
            if not _has_own(callback, name):
                continue
            before = self._read_state()
            getattr(callback, name)(*arguments)
            pairs = zip(before, self._read_state(), strict=False)
            changed = [path for (path, old), (_, new) in pairs if old != new]
            if changed:
                raise errors.ConfigError(
                    f"callbacks: {type(callback).__name__}.{name} changed {errors.show(changed)}, "
                    "but callbacks may only read, because a run that goes on could not restore "
                    "what they did. Leave it out; `patience` ends training, and a "
                    "LearningRateSchedule changes the rate."
                )

    def _read_state(self) -> list[tuple[str, Any]]:
        """Returns what callbacks may not change; metrics start anew with each loop."""
        model = self.built[-1]
        metrics = {id(variable) for variable in model.metrics_variables}
        variables = [*model.variables, *model.optimizer.variables]
        state = [
            (one.path, hash(np.asarray(one).tobytes()))
            for one in variables
            if id(one) not in metrics
        ]
        return [*state, ("stop_training", model.stop_training)]
