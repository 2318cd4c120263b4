"""`fit`: trains a Keras model as `quintain train` trains an experiment, without a task."""

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import keras
import numpy as np

from quintain import errors, orbit
from quintain.core import exp_factory, user_modules
from quintain.core.reports import shown_metrics
from quintain.process import user_errors
from quintain.run import actions, history, live_progress, run_environment, run_options, train_lib
from quintain.run.fitting import keras_callbacks, keras_data, keras_task
from quintain.settings import config_definitions as cfg

MAX_STEPS_PER_LOOP: Final = 100
"""Steps between two reports, unless the caller says otherwise."""

logger = logging.getLogger(__name__)


def fit(
    model: Any,
    train: keras_data.Data,
    validation: keras_data.Data = None,
    *,
    model_dir: str,
    epochs: int = 1,
    steps_per_epoch: int | None = None,
    batch_size: int = keras_data.BATCH_SIZE,
    shuffle: bool = True,
    validation_split: float = 0.0,
    class_weight: Mapping[int, float] | None = None,
    optimizer: Any = None,
    loss: Any = None,
    metrics: Any = None,
    monitor: str = keras_task.LOSS,
    monitor_mode: Literal["higher", "lower"] = "lower",
    patience: int | None = None,
    init_checkpoint: str = "",
    init_exclude: Sequence[str] = (),
    trainer: Mapping[str, Any] | None = None,
    runtime: Mapping[str, Any] | None = None,
    train_actions: Sequence[actions.Action] = (),
    eval_actions: Sequence[actions.Action] = (),
    reporter: orbit.Reporter | None = None,
    verbose: live_progress.Verbose = "auto",
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> history.History:
    """Trains a Keras model, or goes on with a run of it.

    The same call goes on with a run that was stopped, and it ends with the same weights, to the bit
    on CPU, as one that was never stopped, if the program gives the same data each time. Seed
    shuffles, or give data as a function, whose shuffles are seeded by the run.

    `model_dir` is the directory of a run like any other: `quintain predict`, `export`,
    `serve-model`, `train --mode=eval` and the page know it. What commands can't have are objects of
    the program: they go on training and evaluate only with data that are functions of a module.

    Args:
        model: A functional, sequential or subclassed Keras model, compiled or not; one with a
            `train_step` or `test_step` of its own is trained and evaluated by it. Or a function
            that returns one, which several replicas and mixed precision need.
        train: A `tf.data.Dataset` of batches, a `keras.utils.PyDataset`, arrays `(x, y)` or
            `(x, y, sample_weight)`, whose parts may be nested and of pandas, or a generator of
            batches; or a function that returns one of them.
        validation: Likewise, but no generator, which can be read once, unless a function returns
            it. None evaluates nothing.
        model_dir: Directory of the run.
        epochs: Passes through the training data, counted from the start of the run.
        steps_per_epoch: Batches of an epoch; None counts those of `train`, which are read once
            where their number is not known.
        batch_size: Examples of a batch of arrays.
        shuffle: Whether the examples of arrays, and the batches of a `PyDataset`, are trained on in
            another order in each epoch.
        validation_split: Share of the arrays in `train` to validate on, taken from their end.
        class_weight: Weights of training examples by the numbers of their classes; 1 for others.
        optimizer: As for `Model.compile`; None keeps that of the model.
        loss: Likewise.
        metrics: Likewise.
        monitor: Metric of the evaluation that decides on the best checkpoint, kept in `best`.
        monitor_mode: Whether the `higher` or the `lower` value of it is better.
        patience: Epochs without a better value after which training ends. None trains on.
        init_checkpoint: Checkpoint, or directory of a run, whose weights start a new run.
        init_exclude: Patterns of variables that stay as they are beside it, such as `["head/*"]`.
        trainer: Fields of `TrainerConfig`, such as `{"checkpoint_interval": 500}`.
        runtime: Fields of `RuntimeConfig`, such as `{"seed": 1}`.
        train_actions: Called with the output of each training loop.
        eval_actions: Called with the output of each evaluation.
        reporter: Told what happens. None shows what `verbose` says.
        verbose: 0 shows nothing, 1 a bar on a terminal or a table with curves in a notebook, 2
            lines. "auto" is 1 there, and writes to the log elsewhere.
        callbacks: Callbacks that only read, called for epochs and evaluations. With them a training
            loop is an epoch.

    Returns:
        What the run has measured, from its start; its `history` is what Keras' `fit` returns, its
        `model` the trained model.

    Raises:
        ConfigError: If model, data and options do not fit together, the directory belongs to
            another run, or a callback changes the training.
        Interrupted: On SIGTERM or Ctrl-C, after a checkpoint is saved.
    """
    user_modules.refuse_training("fit")
    trainer, runtime = trainer or {}, runtime or {}
    listeners = keras_callbacks.check(callbacks)
    _check_scope(model, runtime)
    _check_numbers(epochs=epochs, steps_per_epoch=steps_per_epoch, batch_size=batch_size)
    _check_validation(validation, validation_split, patience)
    data = keras_data.resolve(train, "train")
    if isinstance(train, Iterator):
        train = data  # Its first batches have been read.
    train_share = 1.0 - validation_split
    data = keras_data.cut(data, 0.0, train_share)
    if validation_split:
        validation = train
    spec = keras_data.find_spec(data, "train")
    steps = steps_per_epoch or keras_data.count_batches(data, batch_size)
    if not steps:
        raise errors.ConfigError(
            "steps_per_epoch: missing; the number of batches in `train` is not known, or endless."
        )
    class_weights = keras_data.list_weights(class_weight)
    task = keras_task.KerasModelConfig(
        init_checkpoint=init_checkpoint,
        init_exclude=tuple(init_exclude),
        model_function=keras_data.name_function(model),
        batch_spec=keras_data.to_text(keras_data.add_weights(spec) if class_weights else spec),
        modules=keras_task.list_modules(model) if isinstance(model, keras.Model) else (),
        train_data=keras_task.KerasDataConfig(
            function=keras_data.name_function(train),
            global_batch_size=batch_size,
            is_training=True,
            shuffle=shuffle,
            end=train_share,
        ),
        validation_data=keras_task.KerasDataConfig(
            function=keras_data.name_function(validation),
            global_batch_size=batch_size,
            is_training=False,
            begin=train_share if validation_split else 0.0,
        ),
        class_weights=class_weights,
    )
    loop = steps if listeners else min(steps, MAX_STEPS_PER_LOOP)
    fields = {
        "train_steps": epochs * steps,
        "steps_per_loop": loop,
        "summary_interval": loop,
        "validation_interval": steps,
        "checkpoint_interval": steps,
        **({} if validation is None else _watch(monitor, monitor_mode, patience)),
    }
    if listeners and (given := {*trainer} & {"steps_per_loop", "validation_interval"}):
        raise errors.ConfigError(
            f"trainer: got {sorted(given)}, but with callbacks loops and evaluations are those of "
            "epochs. Leave it out."
        )
    params = _build_params(task, fields, trainer, runtime)
    compiled = {"optimizer": optimizer, "loss": loss, "metrics": metrics}
    compiled = {name: one for name, one in compiled.items() if one is not None}
    parts = keras_task.Parts(model, train, validation, compiled)
    environment = run_environment.Environment()

    def remember() -> None:
        environment.record(model_dir, {})
        if not task.model_function and (why := keras_task.save_model(parts.built[-1], model_dir)):
            logger.warning("Commands can't build the model of this run: %s", why)

    with contextlib.ExitStack() as stack:
        stack.enter_context(keras_task.program_objects(parts))
        told = keras_callbacks.CallbackReporter(
            reporter
            or stack.enter_context(live_progress.default_reporter(shown_metrics.LOSSES, verbose)),
            listeners,
            parts.built,
            model_dir,
            steps_per_epoch=steps,
            has_evaluations=validation is not None,
        )
        try:
            result = train_lib.train_from_config(
                params,
                "train" if validation is None else "train_and_eval",
                model_dir,
                experiment=keras_task.EXPERIMENT,
                imports=[keras_task.__name__, *_list_imports(task)],
                options=run_options.RunOptions(
                    train_actions=train_actions,
                    eval_actions=eval_actions,
                    reporter=told,
                    on_start=remember,
                ),
            )
            told.end()
        except Exception as error:
            error.__traceback__ = user_errors.skip_own_frames(error.__traceback__)
            raise
    if not (result.is_complete or result.is_stopped_early):
        logger.warning(
            "The training data ended at step %d of %d. Give the function that makes a generator: "
            "it is called for each pass.", result.step, result.train_steps,
        )  # fmt: skip
    found = history.read_history(model_dir)
    found.model = parts.built[-1]
    return found


def _check_validation(
    validation: keras_data.Data, validation_split: float, patience: int | None
) -> None:
    if isinstance(validation, Iterator):
        raise errors.ConfigError(
            "validation: got a generator, which can be read once. Give the function that makes it: "
            "it is called for each evaluation."
        )
    if validation_split and validation is not None:
        raise errors.ConfigError(
            f"validation_split: got {validation_split} and `validation`, expected one of them."
        )
    if patience is not None and validation is None and not validation_split:
        raise errors.ConfigError(f"patience: got {patience}, but there is no `validation`.")


def _check_scope(model: Any, runtime: Mapping[str, Any]) -> None:
    """Refuses what a model that is there already can't be trained with.

    Raises:
        ConfigError: If it would have to be built in a scope, or with another precision.
    """
    if not isinstance(model, keras.Model):
        return
    names = ("mixed_precision_dtype", "distribution_strategy")
    scoped = {name: runtime[name] for name in names if runtime.get(name, "off") != "off"}
    if scoped:
        raise errors.ConfigError(
            f"runtime: got {scoped}, which counts when a model is built, and this one is; give a "
            "function that builds and compiles it instead of the model."
        )


def _build_params(
    task: keras_task.KerasModelConfig,
    fields: Mapping[str, Any],
    trainer: Mapping[str, Any],
    runtime: Mapping[str, Any],
) -> cfg.ExperimentConfig:
    params = exp_factory.get_exp_config(keras_task.EXPERIMENT)
    params.task = task
    params.override({"trainer": {**fields, **trainer}})
    # Epochs end with an evaluation and a checkpoint, however long a loop is.
    params.trainer.follow_loop({*trainer, "validation_interval", "checkpoint_interval"})
    # Variables of a model that is there belong to no strategy; a function's can be asked for one.
    params.override({"runtime": {"distribution_strategy": "off", **runtime}})
    params.lock()
    return params


def _check_numbers(**numbers: int | None) -> None:
    for name, value in numbers.items():
        is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if value is not None and not (is_whole and value >= 1):
            raise errors.ConfigError(
                f"{name}: got {errors.show(value)}, expected a whole number from 1."
            )


def _watch(monitor: str, mode: str, patience: int | None) -> dict[str, Any]:
    """Returns what keeps the best checkpoint, and ends training that gets no better."""
    monitor = keras_task.LOSS if monitor in ("val_loss", "loss") else monitor.removeprefix("val_")
    stopping = {"metric": monitor, "mode": mode, "patience": patience}
    return {
        "best_checkpoint_export_subdir": "best",
        "best_checkpoint_eval_metric": monitor,
        "best_checkpoint_metric_comp": mode,
        **({} if patience is None else {"early_stopping": stopping}),
    }


def _list_imports(task: keras_task.KerasModelConfig) -> list[str]:
    """Returns the modules that a command needs to build model and data again."""
    functions = (task.model_function, task.train_data.function, task.validation_data.function)
    named = [path.partition(":")[0] for path in functions]
    return list(dict.fromkeys(name for name in (*named, *task.modules) if name))
