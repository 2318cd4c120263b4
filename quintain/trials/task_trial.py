"""Registered experiments as trials: a YAML file, and no code.

`entrypoint: experiment:NAME` names an experiment of the training library. Hyperparameters are
dotted paths into its `ExperimentConfig`; a batch is one step of its trainer.
"""

import contextlib
import functools
import importlib
import json
import pathlib
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

import keras
import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.checkpoints import checkpoint_fit, checkpoint_state, checkpoints, receipts
from quintain.config import one_of, provenance
from quintain.core import base_trainer, exp_factory, task_factory, trainer_factory
from quintain.core.loop import trainer_setup
from quintain.core.multitask import configs as multitask_configs
from quintain.core.progressive import configs as progressive_configs
from quintain.core.reports import shown_metrics
from quintain.distribute import distribution, runtime_environment
from quintain.input import file_marks
from quintain.input.diagnosis import data_faults
from quintain.records.config import experiment_spec, source_names
from quintain.records.rows import registered_model
from quintain.run import run_files, runner_factory, train_reporter
from quintain.run.proof import run_facts
from quintain.search import hyperparameters
from quintain.search import space as space_lib
from quintain.settings import config_definitions as cfg
from quintain.trials import base_trial, trial_context
from quintain.trials.keras import keras_variables
from quintain.trials.process import gang, trial_loader

_ALIASES: Final = {
    "global_batch_size": "task.train_data.global_batch_size",
    "batch_size": "task.train_data.global_batch_size",
}
"""Hyperparameters that other kinds of trials have, and what they mean here."""

_SPACE: Final = "hyperparameters"
_OPTIMIZATIONS: Final = (
    ("aggregation_frequency", 1, "trainer.optimizer_config.gradient_accumulation_steps"),
    ("mixed_precision", "O0", "runtime.mixed_precision_dtype"),
)
"""Settings of the platform, their defaults, and what an experiment's own config calls them."""
_TIMES: Final = ("_ms", "_per_second", "_gb")
"""Ends of the names of logs that differ each time."""


class TaskTrial(base_trial.Trial):
    """Any registered experiment, trained and validated as `quintain train` does."""

    controller_module: ClassVar[str] = "quintain.trials.task_trial"


def check(
    config: Mapping[str, Any], model_dir: str | None = None
) -> dict[str, shown_metrics.MetricLabel]:
    """Checks that all hyperparameters of an experiment are settings that its config takes.

    Every hyperparameter is tried with all its values, or at the ends of its range.

    Args:
        config: The complete config of the platform's experiment, as plain data.
        model_dir: Directory with code that registers experiments; None if there is none.

    Returns:
        The labels of the task's metrics by their names.

    Raises:
        ConfigError: Listing all that is wrong, under `entrypoint` or `hyperparameters.NAME`.
    """
    try:
        base = _find_experiment(config, model_dir)
        _require_one_task(base)
        _refuse_optimizations(config)
    except errors.QuintainError as error:
        problem = errors.Problem("entrypoint", str(error))
        raise errors.ConfigError.from_problems([problem]) from error
    dimensions = space_lib.Space.parse(config.get(_SPACE) or {}).dimensions
    problems: list[errors.Problem] = []
    for dimension in dimensions:
        for value in _examples(dimension.hyperparameter):
            found = _find_problems(base, dimension.name, value)
            problems += found
            if found:
                break
    if not problems:
        firsts = {one.name: _examples(one.hyperparameter)[0] for one in dimensions if not one.when}
        first = _apply(base, firsts)
        problems = [*_find_unused(first, firsts), *_find_inelastic(config, first)]
    if problems:
        raise errors.ConfigError.from_problems(problems)
    return runner_factory.merge_metric_labels(base)


def build_params(
    config: Mapping[str, Any], hparams: Mapping[str, Any], model_dir: str | None
) -> cfg.ExperimentConfig:
    """Returns the experiment of a trial, with its hyperparameters, validated and locked.

    Args:
        config: The complete config of the platform's experiment, as plain data.
        hparams: Values of the hyperparameters; nested ones are joined by dots.
        model_dir: Directory with code that registers experiments; None if there is none.

    Raises:
        ConfigError: If a hyperparameter is no setting, or a value is not allowed.
        RegistryError: If there is no such experiment.
    """
    base = _find_experiment(config, model_dir)
    _require_one_task(base)
    _refuse_optimizations(config)
    params = _apply(base, provenance.flatten(hparams))
    if problems := _find_inelastic(config, params):
        raise errors.ConfigError.from_problems(problems)
    params.validate()
    params.lock()
    return params


def _find_inelastic(
    config: Mapping[str, Any], params: cfg.ExperimentConfig
) -> list[errors.Problem]:
    """Returns what is wrong with processes that may become fewer."""
    least = (config.get("resources") or {}).get("min_slots_per_trial")
    if least is None or params.runtime.elastic:
        return []
    text = (
        f"got {least} without runtime.elastic; set it among the hyperparameters, or leave it out."
    )
    return [errors.Problem("resources.min_slots_per_trial", text)]


def _find_experiment(config: Mapping[str, Any], model_dir: str | None) -> cfg.ExperimentConfig:
    importlib.import_module("quintain.registered_experiments")
    if model_dir is None:
        advice = "One of your own needs MODEL_DIR, the directory with the file that registers it."
    else:
        imported = import_experiments(pathlib.Path(model_dir))
        advice = (
            "Of MODEL_DIR those files at its top were imported that call "
            f"`register_config_factory`: {', '.join(imported) or 'none'}."
        )
    return exp_factory.get_exp_config(_experiment_name(config), advice=advice)


def import_experiments(directory: pathlib.Path) -> list[str]:
    """Imports the files of a directory that register experiments, and returns their names.

    Raises:
        TrialError: If one of them raises, with its file and line.
    """
    if not directory.is_dir():
        return []
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    found = [
        path
        for path in sorted(directory.glob("*.py"))
        if source_names.find_used(path, {"register_config_factory"})
    ]
    for path in found:
        trial_loader.import_file(directory, path.stem)
    return [path.name for path in found]


def _refuse_optimizations(config: Mapping[str, Any]) -> None:
    """Checks that gradients and types are left to the experiment's own config."""
    given = config.get("optimizations") or {}
    for name, default, setting in _OPTIMIZATIONS:
        if (given.get(name) or default) != default:
            raise errors.ConfigError(
                f"got optimizations.{name}: {given[name]}; a registered experiment says it itself. "
                f"Set {setting} among the hyperparameters."
            )


def _require_one_task(params: cfg.ExperimentConfig) -> None:
    if isinstance(params, multitask_configs.MultiTaskExperimentConfig) or isinstance(
        params.trainer, progressive_configs.ProgressiveTrainerConfig
    ):
        raise errors.ConfigError(
            f"got an experiment of {type(params).__name__} and {type(params.trainer).__name__}; "
            "trials train one task in one stage."
        )


def _apply(base: cfg.ExperimentConfig, values: Mapping[str, Any]) -> cfg.ExperimentConfig:
    """Returns a copy of an experiment with settings changed, by their dotted paths."""
    params = base.replace()
    for name, value in values.items():
        nested: Any = value
        for part in reversed(_ALIASES.get(name, name).split(".")):
            nested = {part: nested}
        params.override(nested)
    params.trainer.follow_loop({name.removeprefix("trainer.") for name in values})
    return params


def _examples(hyperparameter: hyperparameters.Hyperparameter) -> list[Any]:
    """Returns values by which it can be seen whether a hyperparameter fits."""
    match hyperparameter:
        case hyperparameters.Int(low, high) | hyperparameters.Double(low, high):
            return [low, high]
        case hyperparameters.Log(base=base, minval=low, maxval=high):
            return [base**low, base**high]
        case _:
            return hyperparameter.grid()


def _find_problems(base: cfg.ExperimentConfig, name: str, value: Any) -> list[errors.Problem]:
    try:
        _apply(base, {name: value})
    except errors.ConfigError as error:
        path = f"{_SPACE}.{name}"
        return [
            errors.Problem(path, f"{problem.path}: {problem.message}", problem.is_unknown)
            for problem in error.problems
        ] or [errors.Problem(path, str(error))]
    return []


def _find_unused(params: cfg.ExperimentConfig, names: Iterable[str]) -> list[errors.Problem]:
    """Returns the hyperparameters that belong to a choice which is not made."""
    problems = []
    for name in names:
        part: Any = params
        for step in _ALIASES.get(name, name).split("."):
            is_choice = isinstance(part, one_of.OneOfConfig)
            if is_choice and step not in ("type", part.type):
                problems.append(
                    errors.Problem(
                        f"{_SPACE}.{name}",
                        f"it would change nothing: {step!r} is not in use, as the type there is "
                        f"{part.type!r}.",
                    )
                )
                break
            part = getattr(part, step, None)
    return problems


def build_controller(
    trial_class: type[TaskTrial], context: trial_context.TrialContext
) -> "TaskTrialController":
    """Makes what drives the trial."""
    return TaskTrialController(trial_class(context), context)


class TaskTrialController(base_trial.TrialController):
    """Trains and evaluates with the experiment's own trainer."""

    def __init__(self, trial: TaskTrial, context: trial_context.TrialContext) -> None:
        """Builds task, model, optimizer and trainer under the config's strategy.

        Raises:
            ConfigError: If the experiment can't be trained as a trial.
        """
        super().__init__(trial, context)
        spec = context.spec
        params = build_params(spec.experiment_config, spec.hparams, spec.model_dir)
        params = params.replace(runtime={"seed": spec.seed})
        if spec.peers:
            params = params.replace(runtime=_find_gang_runtime(params.runtime))
        params.lock()
        self._params = params
        self._labels = runner_factory.merge_metric_labels(params)
        self._is_initialized = False
        self._receipts: receipts.ReceiptWriter | None = None
        self._contexts = contextlib.ExitStack()
        runtime_environment.prepare(params.runtime)
        strategy = distribution.build_strategy(params.runtime)
        if spec.peers:
            gang.connect(context, strategy)
        self._contexts.enter_context(distribution.precision(params.runtime))
        keras.utils.set_random_seed(spec.seed)
        # What the task keeps there, such as a vocabulary, belongs to its model.
        self._kept_files = pathlib.Path(spec.scratch_dir) / "task"
        with strategy.scope():
            task = task_factory.get_task(params.task, logging_dir=str(self._kept_files))
            self._trainer = trainer_factory.create_trainer(params, task, train=True, evaluate=True)
        steps = params.trainer.validation_steps
        trainer_setup.check_evaluation_ends(self._trainer.eval_dataset, steps)

    @property
    def trainer(self) -> base_trainer.Trainer:
        """The trainer of the experiment."""
        return self._trainer

    def list_validation_metrics(self) -> list[str]:
        """Returns the metrics of the task and of the model, or what a validation measures.

        A task may score what it gathers over a validation in any way: unless the metric that is
        searched by is among those known beforehand, one batch is evaluated to see.
        """
        known = [metric.name for metric in self._trainer.validation_metrics]
        searched = (self.context.get_experiment_config().get("searcher") or {}).get("metric")
        if searched in known:
            return known
        self._initialize()
        return list(_to_metrics(self._trainer.evaluate(tf.constant(1)) or {}))

    def file_errors_named(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context in which errors about damaged records name their file."""
        task, trainer = self._params.task, self._trainer
        sources = [task.train_data, task.validation_data]
        return data_faults.data_errors_explained(
            lambda: [*sources, trainer.train_dataset, trainer.eval_dataset]
        )

    def train(self, num_batches: int) -> base_trial.TrainResult:
        """Trains for so many steps."""
        self._initialize()
        if not self.context.has_trained:
            self._log("Compiling the training step ...")
        logs = self._trainer.train(tf.constant(num_batches)) or {}
        if self._trainer.train_data_exhausted:
            raise errors.TrialError(
                "task.train_data: the training data ended. Set `task.train_data.is_training` so "
                "that they are repeated."
            )
        self._log(f"step {self._step}  {train_reporter.describe_loop(logs, self._labels)}".rstrip())
        metrics = _to_metrics(logs)
        if "loss" not in metrics:
            metrics["loss"] = metrics.pop("training_loss")
        num_inputs = num_batches * int(self._params.task.train_data.global_batch_size or 0)
        return base_trial.TrainResult(num_inputs, metrics=metrics)

    def count_batches(self) -> int:
        """Returns the step of the trainer."""
        return self._step

    def validate(self) -> base_trial.ValidationResult:
        """Evaluates on `validation_steps` batches, or all validation data."""
        self._initialize()
        steps = self._params.trainer.validation_steps
        start_secs = time.monotonic()
        logs = self._trainer.evaluate(tf.constant(steps)) or {}
        secs = time.monotonic() - start_secs
        self._log(train_reporter.describe_evaluation(self._step, logs, self._labels, secs))
        size = int(self._params.task.validation_data.global_batch_size or 0)
        return base_trial.ValidationResult(_to_metrics(logs), max(steps, 0) * size)

    def save(self, directory: str) -> None:
        """Writes a checkpoint as `quintain train` does, with settings and the task's files."""
        self._initialize()
        for path in self._kept_files.iterdir() if self._kept_files.is_dir() else ():
            if path.is_file():
                shutil.copyfile(path, pathlib.Path(directory, path.name))
        name = _experiment_name(self.context.get_experiment_config())
        run_files.serialize_config(self._params, directory, experiment=name)
        manager = self._build_manager(directory)
        manager.save()
        manager.sync()
        if marks := file_marks.get_known():
            path = pathlib.Path(directory, registered_model.DATA_FILE)
            path.write_text(json.dumps(marks), encoding="utf-8")

    def measure_state(self) -> int:
        """Returns the bytes of the variables of model and optimizer."""
        parts = (self._trainer.model, self._trainer.optimizer)
        return keras_variables.measure(each.value for part in parts for each in part.variables)

    def restore(self, directory: str, *, is_warm_start: bool) -> None:
        """Reads a checkpoint that `save` wrote."""
        paths = checkpoints.list_checkpoints(directory)
        if not paths:
            raise errors.CheckpointError(f"{directory}: there is no checkpoint of a trainer.")
        if is_warm_start:
            self._initialize()
            checkpoint_fit.restore_model(self._trainer.model, paths[-1])
            held = getattr(self._trainer.checkpoint, checkpoint_state.TASK_VARIABLES)
            others = tf.train.Checkpoint(
                optimizer=self._trainer.optimizer, **{checkpoint_state.TASK_VARIABLES: held}
            )
            variables = [*self._trainer.optimizer.variables, *held.list_variables()]
            with keras_variables.learning_rates_preserved(keras_variables.unwrap(variables)):
                others.read(paths[-1]).expect_partial()
        else:
            self._build_manager(directory).restore(paths[-1])
            self._is_initialized = True
            self._log(f"Going on from step {self._step}.")

    def close(self) -> None:
        """Puts the precision policy back."""
        self._contexts.close()

    def _initialize(self) -> None:
        if not self._is_initialized:
            self._trainer.initialize()
            self._is_initialized = True

    @property
    def _step(self) -> int:
        return int(self._trainer.global_step.numpy())

    def _log(self, line: str) -> None:
        """Writes a line into the trial's log; of several processes the first one does."""
        if self.context.distributed.rank == 0:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()

    def _build_manager(self, directory: str) -> checkpoints.CheckpointManager:
        """Returns what saves and restores in a directory; each has the receipts before its own."""
        manager = checkpoints.CheckpointManager(
            self._trainer.checkpoint, directory, step_counter=self._trainer.global_step
        )
        chain = self._receipts.chain if self._receipts else ()
        find_facts = functools.partial(run_facts.find, self._params, directory)
        self._receipts = receipts.ReceiptWriter(directory, find_facts, chain)
        manager.write_receipts(self._receipts)
        return manager


def _find_gang_runtime(runtime: cfg.RuntimeConfig) -> dict[str, Any]:
    """Returns what several processes need in place of an experiment's own devices."""
    if runtime.distribution in (cfg.Distribution.TPU, cfg.Distribution.PARAMETER_SERVER):
        raise errors.ConfigError(
            f"runtime.distribution_strategy: got {runtime.distribution_strategy!r}, expected "
            "another one where several processes train a trial; or set "
            "resources.processes_per_trial to 1."
        )
    gpus = tf.config.list_physical_devices("GPU")
    is_wrong = runtime.all_reduce_alg not in (None, "auto", "ring", "nccl")
    return {
        "distribution_strategy": cfg.Distribution.MULTI_WORKER_MIRRORED.value,
        "num_gpus": min(len(gpus), 1),
        "num_virtual_cpus": 1,
        **({"all_reduce_alg": None} if is_wrong else {}),
    }


def _to_metrics(logs: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: np.asarray(value).tolist()
        for name, value in logs.items()
        if not name.endswith(_TIMES)
    }


def _experiment_name(config: Mapping[str, Any]) -> str:
    return str(config.get("entrypoint") or "").removeprefix(experiment_spec.REGISTERED_PREFIX)
