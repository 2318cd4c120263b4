"""Parser of an experiment: name, files and overrides to one validated, locked config.

The order of precedence, lowest first: the registered experiment, each `config_file` from left to
right, `tpu` and `tf_data_service`, each `params_override`, each `set`. gin comes first of all,
because it binds the arguments of the functions that the registered experiment may call.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from quintain import errors
from quintain.config import base_config, gin_io, overrides, provenance, run_header, yaml_io
from quintain.core import exp_factory, user_modules
from quintain.files import file_io
from quintain.run import run_files
from quintain.settings import config_definitions as cfg

import_modules = user_modules.import_modules

_CONFIGURABLE_MODULES: Final = (
    "quintain.run.experiment_runner",
    "quintain.core.multitask.base_trainer",
    "quintain.core.multitask.evaluator",
    "quintain.core.multitask.interleaving_trainer",
    "quintain.core.progressive.trainer",
    "quintain.optimization.optimizer_factory",
)
"""Modules whose functions and classes gin may bind; they register when they are imported."""


@dataclasses.dataclass
class ParseConfigOptions:
    """Options of a command line that describe an experiment."""

    experiment: str | None = None
    """Name of a registered experiment. None takes it from a config file or from `model_dir`."""

    config_file: Sequence[str] = ()
    """YAML files that override the experiment, the last one winning."""

    tpu: str | None = ""
    """Overrides `runtime.tpu`, if set."""

    tf_data_service: str | None = ""
    """Overrides the tf.data service address of both datasets, if set."""

    params_override: Sequence[str] | str | Mapping[str, Any] = ""
    """Overrides such as `trainer.train_steps=10,runtime.seed=1`, or YAML, or a YAML file, or values
    in dictionaries."""

    set: Sequence[str] = ()
    """Single overrides `path=value`, whose value is all that follows the first `=`."""

    gin_file: Sequence[str] = ()
    """gin files."""

    gin_params: Sequence[str] = ()
    """gin bindings."""

    imports: Sequence[str] = ()
    """Modules to import first, because they register experiments."""

    actions: Sequence[str] = ()
    """Classes `module:Class` to add to `trainer.actions`."""

    model_dir: str | None = None
    """Directory of a run, whose `params.yaml` names the experiment if nothing else does."""

    def __contains__(self, name: str) -> bool:
        return name in {field.name for field in dataclasses.fields(self)}


@dataclasses.dataclass(frozen=True)
class ParsedExperiment:
    """Config, with the origin of its values."""

    name: str
    """Name of the registered experiment."""

    params: cfg.ExperimentConfig
    """The config, locked; `validate` checks it."""

    provenance: provenance.Provenance
    """Which layer set each field."""

    imports: tuple[str, ...]
    """Modules that register the experiment."""

    def validate(self) -> None:
        """Raises a `ConfigError` that lists fields that do not fit, with the places of values."""
        with errors.located(lambda path: str(self.provenance.source(path))):
            self.params.validate()


def parse(
    options: ParseConfigOptions, *, is_validated: bool = True, takes_any: bool = False
) -> ParsedExperiment:
    """Builds the config that `options` describe.

    A run in `model_dir` is gone on with: without an experiment, its `params.yaml` comes before the
    config files.

    Args:
        options: What a command line says.
        is_validated: Whether fields that do not fit together are an error.
        takes_any: Whether a config of another class than `ExperimentConfig` will do, for a program
            with a loop of its own.

    Raises:
        RegistryError: If there is no experiment of this name.
        ConfigError: Listing all that is wrong, with file and line.
    """
    layers = _read_layers(options)
    imports = tuple(dict.fromkeys([*_imports_of(layers), *options.imports]))
    import_modules(imports, _directories_of(layers, options.imports))
    if options.gin_file or options.gin_params:
        import_modules(_CONFIGURABLE_MODULES)
        gin_io.parse_files_and_params(options.gin_file, options.gin_params)
    name = _choose_name(options, layers)
    params = exp_factory.get_exp_config(name)
    if not (takes_any or _has_trainer(params)):
        raise errors.ConfigError(
            f"experiment: got {name!r}, which is a {type(params).__name__}, expected an "
            "ExperimentConfig. Let its function return one, or read it in a program of your own by "
            "`parse_configuration`."
        )
    sources = provenance.Provenance(provenance.Source("factory", name))
    for layer in layers:
        params.override_located(layer.params, layer.locate)
        sources.record(layer.params, layer.source)
    loop_source = sources.source("trainer.steps_per_loop")
    for changed in _follow_loop(params, layers):
        sources.record({"trainer": {changed: None}}, lambda path: loop_source)
    if _has_trainer(params):
        modules = _add_actions(params.trainer, options.actions)
        import_modules(modules, _directories_of(layers, options.imports))
        imports = tuple(dict.fromkeys([*imports, *modules]))
    params.lock()
    parsed = ParsedExperiment(name, params, sources, imports)
    if is_validated:
        parsed.validate()
    return parsed


def parse_configuration(
    flags_obj: Any, lock_return: bool = True, print_return: bool = True
) -> cfg.ExperimentConfig:
    """Returns only the config of `parse`, of any class, as the reference's function does.

    Args:
        flags_obj: `ParseConfigOptions`, or any object with some of its attributes, such as the
            flags of `absl`. Where the program has read gin files itself, they are not read again.
        lock_return: Whether the config itself is read-only. Its parts can be set, as in the
            reference: `params.trainer.train_steps = 10`.
        print_return: Whether it is written to the log.
    """
    params = parse(to_options(flags_obj), takes_any=True).params.replace()
    if print_return:
        run_files.logger.info("%s", yaml_io.dump(params.as_dict()))
    params._locked = lock_return
    return params


def to_options(flags_obj: Any) -> ParseConfigOptions:
    """Returns what any object with some of the attributes of `ParseConfigOptions` says."""
    if isinstance(flags_obj, ParseConfigOptions):
        return flags_obj
    names = {field.name for field in dataclasses.fields(ParseConfigOptions)}
    if gin_io.is_locked():
        names -= {"gin_file", "gin_params"}
    found = {name: getattr(flags_obj, name, None) for name in names}
    return ParseConfigOptions(**{name: value for name, value in found.items() if value})


class ExperimentParser:
    """Builds the config that options describe, in steps that a class of one's own may change."""

    def __init__(self, flags_obj: Any) -> None:
        """Stores the options.

        Args:
            flags_obj: `ParseConfigOptions`, or any object with some of its attributes.
        """
        self._flags_obj = flags_obj

    def parse(self) -> cfg.ExperimentConfig:
        """Returns the config, after all steps; it is neither validated nor locked."""
        params = self.base_experiment()
        params = self.parse_config_file(params)
        params = self.parse_runtime(params)
        params = self.parse_data_service(params)
        params = self.parse_params_override(params)
        _follow_loop(params, _read_layers(to_options(self._flags_obj)))
        return params

    def base_experiment(self) -> cfg.ExperimentConfig:
        """Returns the config of the registered experiment."""
        options = to_options(self._flags_obj)
        layers = _read_files(options)
        directories = _directories_of(layers, options.imports)
        import_modules([*_imports_of(layers), *options.imports], directories)
        return exp_factory.get_exp_config(_choose_name(options, layers))

    def parse_config_file(self, params: cfg.ExperimentConfig) -> cfg.ExperimentConfig:
        """Overrides a config by the files."""
        return _override(params, _read_files(to_options(self._flags_obj)))

    def parse_runtime(self, params: cfg.ExperimentConfig) -> cfg.ExperimentConfig:
        """Overrides the name of the TPU."""
        return _override(params, _read_tpu(to_options(self._flags_obj)))

    def parse_data_service(self, params: cfg.ExperimentConfig) -> cfg.ExperimentConfig:
        """Overrides the address of the tf.data service."""
        return _override(params, _read_data_service(to_options(self._flags_obj)))

    def parse_params_override(self, params: cfg.ExperimentConfig) -> cfg.ExperimentConfig:
        """Overrides a config by the values that are given, which win."""
        return _override(params, _read_overrides(to_options(self._flags_obj)))


def _has_trainer(params: base_config.Config) -> bool:
    """Returns False for a config of other classes, of a program with a loop of its own."""
    return isinstance(params.get("trainer"), cfg.TrainerConfig)


def _follow_loop(params: cfg.ExperimentConfig, layers: Iterable["_Layer"]) -> list[str]:
    """Rounds the intervals that a user did not set; returns the names of those that changed."""
    if not _has_trainer(params):
        return []
    given = {
        name
        for layer in layers
        if not layer.is_record  # The record of a run has all fields.
        for name in layer.params.get("trainer") or ()
    }
    return params.trainer.follow_loop(given)


def _add_actions(trainer: cfg.TrainerConfig, names: Iterable[str]) -> list[str]:
    """Adds classes to the actions; returns the modules of all actions and loggers."""
    known = [action.get("type") for action in trainer.actions]
    new = [{"type": name} for name in names if name not in known]
    trainer.actions = [*trainer.actions, *new]
    used = [one.get("type") for one in (*trainer.actions, *trainer.loggers)]
    return [one.partition(":")[0] for one in used if isinstance(one, str) and ":" in one]


def _override(params: cfg.ExperimentConfig, layers: Iterable["_Layer"]) -> cfg.ExperimentConfig:
    for layer in layers:
        params.override_located(layer.params, layer.locate)
    return params


def load_params(path: str) -> cfg.ExperimentConfig:
    """Returns the config of a run.

    Args:
        path: The run's directory, or its `params.yaml`.

    Raises:
        ConfigError: If there is no `params.yaml`, or it can't be read.
        RegistryError: If its experiment is not registered.
    """
    if file_io.isdir(path):
        path = run_files.params_path(path)
    return parse(ParseConfigOptions(config_file=[path])).params


@dataclasses.dataclass(frozen=True)
class _Layer:
    """Values of one file or flag."""

    params: Mapping[str, Any]
    header: Mapping[str, Any]
    locate: Callable[[str], str]
    kind: str
    is_record: bool = False
    """Whether it is the `params.yaml` of the run that is gone on with."""

    def source(self, path: str) -> provenance.Source:
        return provenance.Source(self.kind, self.locate(path))


def _read_layers(options: ParseConfigOptions) -> list[_Layer]:
    return [
        *_read_files(options),
        *_read_tpu(options),
        *_read_data_service(options),
        *_read_overrides(options),
    ]


def _read_files(options: ParseConfigOptions) -> list[_Layer]:
    record = run_files.params_path(options.model_dir) if options.model_dir else None
    return [_read_file(path, is_record=path == record) for path in _choose_files(options)]


def _read_tpu(options: ParseConfigOptions) -> list[_Layer]:
    return [_flag_layer({"runtime": {"tpu": options.tpu}}, "--tpu")] if options.tpu else []


def _read_data_service(options: ParseConfigOptions) -> list[_Layer]:
    if not options.tf_data_service:
        return []
    data = {"enable_tf_data_service": True, "tf_data_service_address": options.tf_data_service}
    params = {"task": {"train_data": data, "validation_data": data}}
    return [_flag_layer(params, "--tf-data-service")]


def _read_overrides(options: ParseConfigOptions) -> list[_Layer]:
    given = options.params_override
    layers = []
    for values in [given] if isinstance(given, str | Mapping) else given:
        if isinstance(values, Mapping):
            layers.append(_flag_layer(values, "params_override"))
        elif values.strip():
            layers.append(_flag_layer(overrides.parse_overrides(values), "--params-override"))
    layers += [_flag_layer(overrides.parse_assignment(text), "--set") for text in options.set]
    return layers


def _choose_files(options: ParseConfigOptions) -> list[str]:
    """Returns the config files, led by the `params.yaml` of a run that is gone on with."""
    files = list(options.config_file)
    if options.experiment or not options.model_dir:
        return files
    run = run_files.params_path(options.model_dir)
    return [run, *files] if file_io.exists(run) else files


def _read_file(path: str, *, is_record: bool) -> _Layer:
    run_files.check_whole(path)
    content, lines = yaml_io.load_file_with_lines(path)
    names = run_header.HEADER_KEYS
    return _Layer(
        params={name: value for name, value in content.items() if name not in names},
        header={name: value for name, value in content.items() if name in names},
        locate=lambda name: f"{path}:{yaml_io.find_line(lines, name)}",
        kind="file",
        is_record=is_record,
    )


def _flag_layer(params: Mapping[str, Any], flag: str) -> _Layer:
    return _Layer(params=params, header={}, locate=lambda path: flag, kind="override")


def _imports_of(layers: Sequence[_Layer]) -> list[str]:
    return [name for layer in layers for name in layer.header.get(run_header.IMPORTS_KEY) or ()]


def _directories_of(layers: Sequence[_Layer], given: Sequence[str]) -> dict[str, str]:
    """Returns where the modules of config files were; those that were `given` are searched here."""
    found: dict[str, str] = {}
    for layer in layers:
        found |= layer.header.get(run_header.DIRECTORIES_KEY) or {}
    return {name: directory for name, directory in found.items() if name not in given}


def _choose_name(options: ParseConfigOptions, layers: Sequence[_Layer]) -> str:
    named = [
        (layer.header[run_header.EXPERIMENT_KEY], layer)
        for layer in layers
        if run_header.EXPERIMENT_KEY in layer.header
    ]
    for name, layer in named:
        if options.experiment not in (None, name):
            raise errors.ConfigError(
                f"{layer.locate(run_header.EXPERIMENT_KEY)}: this file belongs to the experiment "
                f"{name!r}, but --experiment={options.experiment} was given."
            )
    if options.experiment:
        return options.experiment
    if named:
        return str(named[-1][0])
    if options.model_dir:
        is_there = file_io.isdir(options.model_dir)
        raise errors.ConfigError(
            f"--model-dir: got {options.model_dir!r}, "
            f"{'where no params.yaml is' if is_there else 'which is not there'}; expected the "
            "directory of a run. Give another one, or --experiment=NAME for a new run there "
            "(`quintain config list` shows the names)."
        )
    raise errors.ConfigError(
        "experiment: missing. Give --experiment=NAME (`quintain config list` shows the names), or "
        "the --model-dir of a run."
    )
