"""Loader of the trial in a directory of the user's code.

The directory may be flat (`from data import load`), a package with an `__init__.py` (`from .data
import load`), or both at once. With an entry point `module:Class` the class is the one named;
without, it is the only subclass of a trial that the package exports, or that is defined in a file
of the directory.
"""

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import logging
import pathlib
import sys
import traceback
import types
from collections.abc import Callable, Mapping
from typing import Any, Final

from quintain import errors
from quintain.records.config import experiment_spec, foreign_imports, source_imports, source_names
from quintain.trials import base_trial, trial_context

GANG_MODULES: Final = ("quintain.trials.task_trial", "quintain.trials.keras.keras_trial")
"""Modules of the kinds of trials that several processes can train together."""

_KINDS: Final = "TensorFlowTrial, EstimatorTrial or KerasTrial of quintain.trials"

_KERAS_KINDS: Final = frozenset({"KerasTrial", "KerasFunctionalTrial", "TFKerasTrial"})

_MODEL_FILE: Final = "model_def"

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class LoadedTrial:
    """Trial class, the functions of its module, and its controller."""

    trial_class: type[Any]
    """The user's class, complete."""

    functions: Mapping[str, Callable[..., Any]]
    """Functions of the class's module, and of the package that exports it."""

    controller_module: str
    """Module whose `build_controller` drives this kind of trial."""


def load_trial(model_dir: str, entrypoint: str | None) -> LoadedTrial:
    """Imports the user's code and returns its trial.

    Args:
        model_dir: Directory of the code; it is put on `sys.path`.
        entrypoint: `module:Class`, `experiment:NAME`, or None to search.

    Raises:
        TrialError: If there is no trial, more than one, one that lacks methods, or code that
            raises when it is imported.
    """
    if entrypoint is not None and entrypoint.startswith(experiment_spec.REGISTERED_PREFIX):
        task_trial = importlib.import_module("quintain.trials.task_trial")
        return LoadedTrial(task_trial.TaskTrial, {}, "quintain.trials.task_trial")
    directory = pathlib.Path(model_dir).resolve()
    if not directory.is_dir():
        raise errors.TrialError(f"{model_dir}: there is no such directory with a model.")
    if (directory / "startup-hook.sh").exists():
        logger.warning("startup-hook.sh is not run: trials run in the environment of the master.")
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    _forget_shadowed(directory)
    _prepare_tensorflow(directory)
    if entrypoint is None:
        trial_class, modules = _search(directory)
    else:
        trial_class, modules = _load_named(directory, entrypoint)
    functions = {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if inspect.isfunction(value)
    }
    missing = trial_class.find_missing(functions)
    if missing:
        raise errors.TrialError(
            f"{trial_class.__name__} ({_place(trial_class)}) lacks {', '.join(missing)}."
        )
    return LoadedTrial(trial_class, functions, trial_class.controller_module)


def refuse_processes(loaded: LoadedTrial, count: int) -> str:
    """Returns why a trial can't be trained by several processes."""
    return (
        f"got {count}, but {loaded.trial_class.__name__} is trained by one process; leave it out: "
        "the process has all slots of the trial. Registered experiments and KerasTrial are trained "
        "by several."
    )


def _forget_shadowed(directory: pathlib.Path) -> None:
    """Forgets what was imported ahead and bears the name of a file of the user's.

    In a fresh process the user's file would have come first.
    """
    files = [*directory.glob("*.py"), *(path.parent for path in directory.glob("*/__init__.py"))]
    for name in {file.stem for file in files} & source_imports.imported_ahead:
        for loaded in [one for one in sys.modules if f"{one}.".startswith(f"{name}.")]:
            del sys.modules[loaded]


def _prepare_tensorflow(directory: pathlib.Path) -> None:
    """Gives code for graphs, or older Keras, the names it was written for before its import."""
    kinds = {"EstimatorTrial", "TensorFlowTrial", *_KERAS_KINDS}
    used = source_names.find_used_below(directory, kinds)
    if not used - _KERAS_KINDS:
        if used:
            importlib.import_module("quintain.trials.older.keras2_names").enable()
    elif "EstimatorTrial" in used:
        importlib.import_module("quintain.trials.older.estimator_compat").load()
    else:
        importlib.import_module("quintain.trials.older.tf1_mode").enable()


def _load_named(
    directory: pathlib.Path, entrypoint: str
) -> tuple[type[Any], list[types.ModuleType]]:
    module_name, colon, class_name = entrypoint.partition(":")
    if not colon or not module_name or not class_name or "/" in class_name:
        raise errors.TrialError(
            f"entrypoint: got {entrypoint!r}, expected `module:Class` or `experiment:NAME`."
        )
    relative = pathlib.Path(*module_name.split("."))
    is_there = "/" not in module_name and any(
        (directory / path).exists() for path in (relative.with_suffix(".py"), relative)
    )
    if not is_there and not _is_importable(module_name):
        raise errors.TrialError(
            f"entrypoint: there is no module {module_name!r} in {directory}. "
            + _describe_modules(directory, module_name)
        )
    module = import_file(directory, module_name)
    owner: Any = module
    for part in class_name.split("."):
        if not hasattr(owner, part):
            trials = _find_trials(module)
            known = trial_context.describe_names(class_name, trials)
            raise errors.TrialError(
                f"entrypoint: {module.__file__} has no {class_name!r}. "
                + (known if trials else f"It has no subclass of {_KINDS} at all.")
            )
        owner = getattr(owner, part)
    if not _is_trial(owner):
        raise errors.TrialError(
            f"entrypoint: {entrypoint!r} is {owner!r}, expected a subclass of {_KINDS}."
        )
    return owner, _modules_of(owner, module)


def _describe_modules(directory: pathlib.Path, name: str) -> str:
    """Returns the modules of a directory and of those in it, or what to do if there are none."""
    files = [path.relative_to(directory) for path in directory.glob("*.py")]
    files += [path.relative_to(directory) for path in directory.glob("*/*.py")]
    names = {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in files}
    if not names:
        return "It has no Python files; give the directory with the trial's code."
    dotted = name.removesuffix(".py").replace("/", ".")
    return trial_context.describe_names(dotted, names - {"__init__"})


def _is_importable(module_name: str) -> bool:
    try:
        return importlib.util.find_spec(module_name) is not None
    except (ImportError, ValueError):
        return False


def _search(directory: pathlib.Path) -> tuple[type[Any], list[types.ModuleType]]:
    if (directory / "__init__.py").exists():
        module = _import_package(directory)
        exported = _find_trials(module)
        if exported:
            return _choose(exported, module, directory)
    files = [path for path in sorted(directory.glob("*.py")) if path.is_file()]
    names = [path.stem for path in files if _mentions_trial(path)]
    if _MODEL_FILE in names:
        names = [_MODEL_FILE]
    found: dict[str, tuple[type[Any], types.ModuleType]] = {}
    for name in names:
        module = import_file(directory, name)
        for class_name, trial_class in _find_trials(module).items():
            if trial_class.__module__ == module.__name__:
                found[class_name] = (trial_class, module)
    if len(found) == 1:
        trial_class, module = next(iter(found.values()))
        return trial_class, _modules_of(trial_class, module)
    raise _no_choice({name: pair[0] for name, pair in found.items()}, directory)


def _choose(
    found: Mapping[str, type[Any]], module: types.ModuleType, directory: pathlib.Path
) -> tuple[type[Any], list[types.ModuleType]]:
    classes = set(found.values())
    # A class that another one extends is a base, not the trial.
    leaves = [
        one
        for one in classes
        if not any(one is not other and issubclass(other, one) for other in classes)
    ]
    if len(leaves) != 1:
        raise _no_choice(found, directory)
    return leaves[0], _modules_of(leaves[0], module)


def _no_choice(found: Mapping[str, type[Any]], directory: pathlib.Path) -> errors.TrialError:
    if not found:
        return errors.TrialError(
            f"{directory}: there is no subclass of {_KINDS} in it. Give the directory of the "
            "trial's code, or name its class in the config: `entrypoint: module:Class`."
        )
    places = ", ".join(f"{name} ({_place(one)})" for name, one in sorted(found.items()))
    return errors.TrialError(
        f"{directory}: there are several trials: {places}. Name one of them in the config: "
        "`entrypoint: module:Class`."
    )


def _place(trial_class: type[Any]) -> str:
    try:
        file = pathlib.Path(inspect.getsourcefile(trial_class) or "?").name
        return f"{file}:{inspect.getsourcelines(trial_class)[1]}"
    except (OSError, TypeError):
        return trial_class.__module__


def _mentions_trial(path: pathlib.Path) -> bool:
    """Returns whether a file defines a class that may be a trial, without importing it."""
    try:
        tree = ast.parse(path.read_text(), str(path))
    except (SyntaxError, UnicodeDecodeError):
        return True  # importing it says what is wrong
    return any(
        isinstance(node, ast.ClassDef) and any("Trial" in ast.unparse(base) for base in node.bases)
        for node in ast.walk(tree)
    )


def _find_trials(module: types.ModuleType) -> dict[str, type[Any]]:
    return {name: value for name, value in vars(module).items() if _is_trial(value)}


def _is_trial(value: Any) -> bool:
    return (
        inspect.isclass(value)
        and issubclass(value, base_trial.Trial)
        and not value.__module__.startswith("quintain.")
    )


def _modules_of(trial_class: type[Any], module: types.ModuleType) -> list[types.ModuleType]:
    own = sys.modules.get(trial_class.__module__)
    return [module] if own is None or own is module else [module, own]


def import_file(directory: pathlib.Path, name: str) -> types.ModuleType:
    """Imports a module of the directory, as a part of the package where it needs to be one.

    Raises:
        TrialError: If it raises, with its file and line.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if "relative import" not in str(error):
            raise _explain(error, directory) from error
        sys.modules.pop(name, None)
    except Exception as error:
        raise _explain(error, directory) from error
    package = _import_package(directory)
    try:
        return importlib.import_module(f"{package.__name__}.{name}")
    except Exception as error:
        raise _explain(error, directory) from error


def _import_package(directory: pathlib.Path) -> types.ModuleType:
    name = directory.name if directory.name.isidentifier() else "model"
    if name in sys.modules and getattr(sys.modules[name], "__path__", None) != [str(directory)]:
        name = f"quintain_{name}"
    if name in sys.modules:
        return sys.modules[name]
    init = directory / "__init__.py"
    if init.exists():
        spec = importlib.util.spec_from_file_location(
            name, init, submodule_search_locations=[str(directory)]
        )
    else:
        spec = importlib.util.spec_from_loader(name, None, is_package=True)
    if spec is None:
        raise errors.TrialError(f"{directory}: this can't be imported.")
    module = importlib.util.module_from_spec(spec)
    module.__path__ = [str(directory)]
    sys.modules[name] = module
    if spec.loader is not None:
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise _explain(error, directory) from error
    return module


def _explain(error: Exception, directory: pathlib.Path) -> errors.TrialError:
    if isinstance(error, errors.TrialError):
        return error
    frames: list[traceback.FrameSummary] = []
    if isinstance(error, SyntaxError):
        place = f"{error.filename}:{error.lineno}"
    else:
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if pathlib.Path(frame.filename).is_relative_to(directory)
        ]
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else str(directory)
    if isinstance(error, ModuleNotFoundError):
        line = frames[-1].line or "" if frames else ""
        advice = foreign_imports.explain_import(error.name or "", line)
        if advice is not None:
            return errors.TrialError(f"{place}: {advice}")
    return errors.TrialError(
        f"{place}: importing this raised {type(error).__name__}: "
        f"{error.msg if isinstance(error, SyntaxError) else error}"
    )
