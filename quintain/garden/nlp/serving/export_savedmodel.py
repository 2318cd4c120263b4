r"""Export program of the Model Garden, which builds a model from the file of its task.

    python -m quintain.garden.nlp.serving.export_savedmodel --task_name=SentencePrediction \
        --config_file=params.yaml --checkpoint_path=run --export_savedmodel_dir=exported \
        --serving_params=inputs_only=false --function_keys=serve

`quintain export` needs nothing but the directory of a run, and its models take text.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from absl import app, flags

from quintain import config, errors
from quintain.config import base_config, overrides
from quintain.core import base_task, export_base, task_factory
from quintain.garden.nlp.serving import export_savedmodel_util, serving_modules
from quintain.nlp.tasks import masked_lm, sentence_prediction, translation

FLAGS = flags.FLAGS

SERVING_MODULES: Final[dict[type[base_task.Task], type[export_base.ExportModule]]] = {
    sentence_prediction.SentencePredictionTask: serving_modules.SentencePrediction,
    masked_lm.MaskedLMTask: serving_modules.MaskedLM,
    translation.TranslationTask: serving_modules.Translation,
}
"""What serves the models of a task. Programs may add their own tasks."""


def lookup_export_module(task: base_task.Task) -> Any:
    """Returns the class that serves the models of a task.

    Raises:
        RegistryError: If there is none.
    """
    for cls in type(task).__mro__:
        if cls in SERVING_MODULES:
            return SERVING_MODULES[cls]
    known = ", ".join(cls.__name__ for cls in SERVING_MODULES)
    raise errors.RegistryError(
        f"No export module is registered for {type(task).__name__}. Known: {known}. Add yours: "
        f"export_savedmodel.SERVING_MODULES[{type(task).__name__}] = MyExportModule."
    )


def create_export_module(
    *, task_name: str, config_file: Any, serving_params: Mapping[str, Any] | None
) -> export_base.ExportModule:
    """Builds a new model of a task, and what serves it.

    Args:
        task_name: Name of the class of the task's config, or a part of it, such as
            `SentencePrediction`.
        config_file: File of an experiment, whose `task` is taken; or what else
            `override_params_dict` takes.
        serving_params: Fields of the export module's `Params`.

    Raises:
        RegistryError: If no task has this name, or nothing serves its models.
        ConfigError: If the config or the parameters are wrong.
    """
    config_cls = _find_config_cls(task_name)

    @dataclasses.dataclass
    class _Experiment(base_config.Config):
        task: config_cls = dataclasses.field(default_factory=config_cls)  # type: ignore[valid-type]

    experiment: Any = config.override_params_dict(_Experiment(), config_file, is_strict=False)
    experiment.task.validation_data = None
    task = task_factory.get_task_cls(config_cls)(experiment.task)
    module_cls = lookup_export_module(task)
    return module_cls(module_cls.Params(**(serving_params or {})), task.build_model())


def _find_config_cls(task_name: str) -> Any:
    known = list(task_factory.TASKS.keys())
    found = [cls for cls in known if task_name in cls.__name__]
    if not found:
        names = [cls.__name__ for cls in known]
        raise errors.RegistryError(
            f"task_name: got {task_name!r}, expected one of {', '.join(names)}, or a part of it."
            f"{errors.suggest(task_name, names)}"
        )
    return found[0]


def define_flags() -> None:
    """Defines the flags that `main` reads."""
    flags.DEFINE_string("task_name", "SentencePrediction", "The task.")
    flags.DEFINE_string("config_file", None, "YAML file of the experiment.")
    flags.DEFINE_string("checkpoint_path", None, "Checkpoint, or directory of a run.")
    flags.DEFINE_string("export_savedmodel_dir", None, "Where to write.")
    flags.DEFINE_string("serving_params", None, "`name=value` pairs of Params, or YAML.")
    flags.DEFINE_string("function_keys", None, "The function to serve.")
    flags.DEFINE_string("module_key", None, "Name of the model in the checkpoint.")


def main(_: Any) -> str:
    """Exports by the flags of `define_flags`, and returns the directory of the SavedModel.

    Raises:
        ConfigError: If a flag is missing or wrong.
    """
    for name in ("config_file", "export_savedmodel_dir", "function_keys"):
        if not FLAGS[name].value:
            raise errors.ConfigError(f"--{name}: missing.")
    module = create_export_module(
        task_name=FLAGS.task_name,
        config_file=FLAGS.config_file,
        serving_params=overrides.parse_overrides(FLAGS.serving_params or "{}"),
    )
    return export_savedmodel_util.export(
        module,
        function_keys=[FLAGS.function_keys],
        export_savedmodel_dir=FLAGS.export_savedmodel_dir,
        checkpoint_path=FLAGS.checkpoint_path,
        module_key=FLAGS.module_key,
    )


if __name__ == "__main__":
    define_flags()
    app.run(main)
