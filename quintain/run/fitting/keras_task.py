"""Task of a compiled Keras model and its data."""

import contextlib
import contextvars
import dataclasses
import pathlib
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Final

import keras
import tensorflow as tf
from annotated_types import Ge, Le
from typing_extensions import override

from quintain import errors
from quintain.core import (
    base_task,
    exp_factory,
    export_base,
    model_export,
    task_factory,
    user_modules,
)
from quintain.core.loop import trainer_setup
from quintain.core.steps import keras2_code
from quintain.files import file_io, file_paths, whole_files
from quintain.process import user_errors
from quintain.run.fitting import keras_data
from quintain.settings import config_definitions as cfg

EXPERIMENT: Final = "keras/fit"
MODEL_FILE: Final = "model.keras"
LOSS: Final = "validation_loss"

_MODULE_ADVICE: Final = "Start the program again that began the run: it goes on where it stopped."
_MODEL_ADVICE: Final = (
    "Give `fit` the function that builds and compiles the model, or let the classes of the model "
    "have a `get_config` that their `__init__` takes."
)


@dataclasses.dataclass
class KerasDataConfig(cfg.DataConfig):
    """Data of a program."""

    function: str = ""
    """`MODULE:NAME` of the function that returns them; empty if they are objects of the program."""

    shuffle: bool = True
    """Whether arrays' examples and the batches of a `PyDataset` are shuffled in training."""

    begin: Annotated[float, Ge(0), Le(1)] = 0.0
    """Share of the arrays' examples before the first one."""

    end: Annotated[float, Ge(0), Le(1)] = 1.0
    """Share of the arrays' examples up to the last one."""


@dataclasses.dataclass
class KerasModelConfig(cfg.TaskConfig):
    """A Keras model that `quintain.fit` trains."""

    model_function: str = ""
    """`MODULE:NAME` of the function that builds and compiles it; empty if the run's directory has
    it as `model.keras`."""

    batch_spec: str = ""
    """Shapes and types of a batch, as JSON."""

    modules: tuple[str, ...] = ()
    """Modules with the classes of the model."""

    class_weights: tuple[Annotated[float, Ge(0), Le(1e9)], ...] = ()
    """Weights of the training examples of each class; empty weighs none."""

    train_data: KerasDataConfig = dataclasses.field(
        default_factory=lambda: KerasDataConfig(is_training=True)
    )
    """Training data."""

    validation_data: KerasDataConfig = dataclasses.field(
        default_factory=lambda: KerasDataConfig(is_training=False)
    )
    """Evaluation data."""


@exp_factory.register_config_factory(EXPERIMENT)
def fit_experiment() -> cfg.ExperimentConfig:
    """Keras model of `quintain.fit`, which Python begins."""
    return cfg.ExperimentConfig(task=KerasModelConfig())


@dataclasses.dataclass(frozen=True)
class Parts:
    """Objects that a program has given."""

    model: keras.Model | Callable[[], keras.Model]
    train: keras_data.Data
    validation: keras_data.Data
    compile_options: Mapping[str, Any]
    built: list[keras.Model] = dataclasses.field(default_factory=list)


_given: contextvars.ContextVar[Parts | None] = contextvars.ContextVar("given", default=None)


@contextlib.contextmanager
def program_objects(parts: Parts) -> Iterator[None]:
    """Lets the tasks that are built inside use the objects of a program."""
    token = _given.set(parts)
    try:
        yield
    finally:
        _given.reset(token)


@task_factory.register_task_cls(KerasModelConfig)
class KerasModelTask(base_task.Task):
    """Trains and evaluates a compiled Keras model by its own `train_step` and `test_step`."""

    _task_config: KerasModelConfig

    def __init__(
        self, params: cfg.TaskConfig, logging_dir: str | None = None, name: str | None = None
    ) -> None:
        """Takes up what the program has given; without a program, what the run's directory has."""
        super().__init__(params, logging_dir=logging_dir, name=name)
        self._parts = _given.get()
        self._optimizer: Any = None

    @property
    @override
    def task_config(self) -> KerasModelConfig:
        return self._task_config

    @override
    def build_model(self) -> keras.Model:
        """Returns the model of the program, with all its variables; or loads that of the run.

        Raises:
            ConfigError: If it is not compiled, or can't be built from its data.
        """
        model = self._load_model() if self._parts is None else self._take_model(self._parts)
        if not isinstance(model, keras.Model):
            raise errors.ConfigError(
                f"model: got {model!r}, expected a keras.Model.{_advise(model)}"
            )
        if not model.compiled or model.optimizer is None:
            raise errors.ConfigError(
                "model: it is not compiled, so that there is nothing to minimise. Call "
                "model.compile(optimizer=..., loss=...), or give `optimizer` and `loss`."
            )
        keras2_code.restore_steps(model)
        _build(model, keras_data.from_text(self.task_config.batch_spec))
        self._optimizer = model.optimizer
        if self._parts is not None:
            self._parts.built.append(model)
        return model

    def _take_model(self, parts: Parts) -> keras.Model:
        is_model = isinstance(parts.model, keras.Model) or _advise(parts.model) != ""
        is_function = callable(parts.model) and not is_model
        model: Any = parts.model() if is_function else parts.model
        if parts.compile_options and isinstance(model, keras.Model):
            options = dict(parts.compile_options)
            model.compile(**{**_find_compiled(model), **options})
        return model

    def _load_model(self) -> keras.Model:
        config = self.task_config
        if config.model_function:
            return _import(config.model_function, "task.model_function")()
        path = file_paths.join(self.logging_dir, MODEL_FILE)
        if not file_io.exists(path):
            raise errors.ConfigError(
                f"{path}: there is no such file, so that the model of this run can't be built "
                f"without its program. {_MODEL_ADVICE}"
            )
        try:
            return _load(file_io.fetch(path), config.modules)
        except (ValueError, TypeError, OSError) as error:
            raise errors.ConfigError(
                f"{path}: the model can't be loaded: {_describe_error(error)}\n{_MODEL_ADVICE}"
            ) from error

    def create_optimizer(self, *args: Any, **kwargs: Any) -> keras.optimizers.Optimizer:  # type: ignore[override]  # needs the model
        """Returns the optimizer that the model was compiled with."""
        del args, kwargs
        return self._optimizer

    def build_inputs(  # type: ignore[override]  # takes the data of its config
        self, params: KerasDataConfig, input_context: tf.distribute.InputContext | None = None
    ) -> tf.data.Dataset:
        """Returns batches of the program's data.

        Raises:
            ConfigError: If they are objects of a program that is not running.
        """
        is_training = bool(params.is_training)
        name = "train" if is_training else "validation"
        if self._parts is not None:
            data = self._parts.train if is_training else self._parts.validation
        elif params.function:
            data = _import(params.function, f"task.{name}_data.function")
        else:
            raise errors.ConfigError(
                f"task.{name}_data: the data of this run are objects of the program that began it "
                f"(see environment.json), which commands do not have. {_MODULE_ADVICE} Data that "
                "commands find are given as functions of a module."
            )
        return keras_data.build(
            keras_data.cut(keras_data.resolve(data, name), params.begin, params.end),
            batch_size=params.global_batch_size,
            is_training=is_training,
            shuffle_seed=(params.seed or 0) if is_training and params.shuffle else None,
            class_weights=self.task_config.class_weights if is_training else (),
            input_context=input_context,
        )

    @override
    def split_inputs(self, inputs: Any) -> tuple[Any, Any]:
        features, labels, _ = keras.utils.unpack_x_y_sample_weight(inputs)
        return features, labels

    @override
    def train_step(
        self,
        inputs: Any,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        metrics: Any | None = None,
    ) -> dict[str, Any]:
        """Does the model's own `train_step`, which updates its metrics, too."""
        del optimizer, metrics
        loss, count = _run_step(model, model.train_step, inputs)
        return {self.loss: loss, self.loss_count: count}

    @override
    def validation_step(
        self, inputs: Any, model: keras.Model, metrics: Any | None = None
    ) -> dict[str, Any]:
        """Does the model's own `test_step`, which updates its metrics, too."""
        del metrics
        loss, count = _run_step(model, model.test_step, inputs)
        return {self.loss: loss, self.loss_count: count}

    @override
    def build_export_module(self, model: keras.Model) -> export_base.ExportModule:
        """Returns the model with the inputs that it was trained on."""
        batch = keras_data.from_text(self.task_config.batch_spec)
        return model_export.derive(self, model, batch)


def _advise(model: Any) -> str:
    """Returns what to do with a model of Keras 2; nothing for anything else."""
    if not any(one.__module__.partition(".")[0] == "tf_keras" for one in type(model).__mro__):
        return ""
    return (
        " It is one of tf_keras, which is Keras 2: build it with keras. `quintain migrate` "
        "rewrites the imports of files."
    )


def save_model(model: keras.Model, model_dir: str) -> str:
    """Writes the model into the directory of its run, for commands to build it again.

    Args:
        model: The model.
        model_dir: The directory.

    Returns:
        Why that can't be done; empty if it is.
    """
    path = file_paths.join(model_dir, MODEL_FILE)
    if file_io.exists(path):
        return ""
    try:
        with tempfile.TemporaryDirectory() as scratch:
            local = pathlib.Path(scratch, MODEL_FILE)
            model.save(local)
            if list_modules(model):  # Those of Keras are known to come back.
                _load(str(local), list_modules(model))
            whole_files.write(path, local.read_bytes())
    except (TypeError, ValueError, NotImplementedError) as error:
        return f"{_describe_error(error)}\n{_MODEL_ADVICE}"
    return ""


def _load(path: str, modules: Iterable[str]) -> keras.Model:
    """Loads a model whose classes and functions may be those of some modules."""
    own = {
        name: value
        for module in modules
        for name, value in vars(_find_module(module)).items()
        if callable(value)
    }
    return keras.saving.load_model(path, custom_objects=own)


def _find_module(name: str) -> Any:
    """Returns an imported module, or the script that is running under its name."""
    is_script = user_modules.name_module(user_modules.MAIN) == name
    return sys.modules[user_modules.MAIN if is_script else name]


def _describe_error(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def list_modules(model: keras.Model) -> tuple[str, ...]:
    """Returns the modules of the user's classes in a model."""
    names = [type(layer).__module__ for layer in model._flatten_layers()]
    own = [user_modules.name_module(name) for name in names if not _is_library(name)]
    return tuple(sorted({name for name in own if name != user_modules.MAIN}))


def _is_library(module: str) -> bool:
    return module.partition(".")[0] in ("keras", "tensorflow", "quintain")


def _find_compiled(model: keras.Model) -> dict[str, Any]:
    """Returns what a model was compiled with, for what is not given anew."""
    config = (model._compile_config.config if model.compiled else None) or {}
    known = {name: config.get(name) for name in ("loss", "metrics", "weighted_metrics")}
    return {"optimizer": model.optimizer, **known} if model.compiled else {}


def _build(model: keras.Model, spec: Any) -> None:
    """Creates all variables, those of optimizer, metrics and losses included.

    Raises:
        ConfigError: If the model can't be called with its data.
    """
    leaves = tf.nest.flatten(spec)
    if all(isinstance(leaf, tf.TensorSpec) for leaf in leaves):
        batch = tf.nest.map_structure(
            lambda leaf: keras.KerasTensor(leaf.shape, leaf.dtype.name), spec
        )
        # A model that Keras can't build without data has its variables already, or tells below.
        with contextlib.suppress(Exception):
            model._symbolic_build(data_batch=batch)
    if not model.built:
        try:
            features = keras.utils.unpack_x_y_sample_weight(spec)[0]
            model(tf.nest.map_structure(_build_zeros, features))
        except (TypeError, ValueError, tf.errors.OpError) as error:
            found = user_errors.explain(error)
            raise errors.ConfigError(
                f"model: {type(model).__name__} can't be called with its training data, {spec}: "
                f"{found.cause}"
            ) from error
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)

    @tf.autograph.experimental.do_not_convert
    def step(batch: Any) -> Any:
        return tf.distribute.get_strategy().run(model.train_step, args=(batch,))

    trainer_setup.build_optimizers([model], step, spec)


def _build_zeros(spec: tf.TensorSpec) -> tf.Tensor:
    return tf.zeros([size or 1 for size in spec.shape.as_list()], spec.dtype)


def _run_step(
    model: keras.Model, step: Callable[[Any], Any], inputs: Any
) -> tuple[tf.Tensor, tf.Tensor]:
    """Runs a step of the model's own.

    Returns:
        The loss of this batch, and how much it counts in the mean that Keras would show: as the
        step has it count in a mean of its own, else as many as there are examples.

    Raises:
        ConfigError: If the step does not say its loss.
    """
    own = getattr(model, "_loss_tracker", None)
    if own is not None:
        own.reset_state()
    mean = _find_mean(model, own)
    before = None if mean is None else (tf.identity(mean.total), tf.identity(mean.count))
    logs = step(inputs)
    if not isinstance(logs, Mapping) or "loss" not in logs:
        found = ", ".join(logs) if isinstance(logs, Mapping) else type(logs).__name__
        raise errors.ConfigError(
            f"{type(model).__name__}.{step.__name__} returned {found or 'nothing'}, expected a "
            f"mapping with `loss`.\n  {user_errors.locate(step)}"
        )
    if mean is None or before is None:
        size = tf.cast(tf.shape(tf.nest.flatten(inputs)[0])[0], tf.float32)
        count = size if own is None else tf.where(own.count > 0, own.count, size)
        return tf.convert_to_tensor(logs["loss"]), count
    # The mean is over all batches since it was last reset.
    count = mean.count - before[1]
    return (mean.total - before[0]) / tf.maximum(count, 1e-12), count


def _find_mean(model: keras.Model, own: Any) -> keras.metrics.Mean | None:
    """Returns the mean of the loss that a model with a step of its own keeps, if it does."""
    for metric in model.metrics:
        if metric is not own and metric.name == "loss" and isinstance(metric, keras.metrics.Mean):
            return metric
    return None


def _import(path: str, field: str) -> Any:
    module, _, name = path.partition(":")
    user_modules.import_modules([module])
    found = getattr(sys.modules[module], name, None)
    if not callable(found):
        raise errors.ConfigError(f"{field}: got {path!r}, but {module} has no function {name!r}.")
    return found
