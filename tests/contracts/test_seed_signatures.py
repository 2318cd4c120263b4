"""The public signatures are those of the documents that the project was created from."""

import inspect

import pytest

import quintain as tfm

# Parameter names and defaults, in order, as the documents give them.
TRAINER_METHODS = {
    "__init__": "config, task, model, optimizer, train=True, evaluate=True, train_dataset=None, "
    "validation_dataset=None, checkpoint_exporter=None",
    "coordinator_for_async": "",
    "create_eval_loop_fn": "has_state",
    "create_train_loop_fn": "",
    "distribute_dataset": "dataset_or_fn, *args, **kwargs",
    "eval_begin": "",
    "eval_end": "aggregated_logs=None",
    "eval_reduce": "state=None, step_outputs=None",
    "eval_step": "iterator",
    "evaluate": "num_steps",
    "init_async": "",
    "initialize": "",
    "join": "",
    "next_eval_inputs": "iterator",
    "next_train_inputs": "iterator",
    "train": "num_steps",
    "train_loop_begin": "",
    "train_loop_end": "",
    "train_step": "iterator",
}

TASK_METHODS = {
    "__init__": "params, logging_dir=None, name=None",
    "aggregate_logs": "state=None, step_outputs=None",
    "build_inputs": "params, input_context=None",
    "build_losses": "labels, model_outputs, aux_losses=None",
    "build_metrics": "training=True",
    "build_model": "",
    "create_optimizer": "optimizer_config, runtime_config=None, dp_config=None",
    "inference_step": "inputs, model",
    "initialize": "model",
    "process_compiled_metrics": "compiled_metrics, labels, model_outputs",
    "process_metrics": "metrics, labels, model_outputs, **kwargs",
    "reduce_aggregated_logs": "aggregated_logs, global_step=None",
    "train_step": "inputs, model, optimizer, metrics=None",
    "validation_step": "inputs, model, metrics=None",
}


def describe(function):
    """Returns the parameters of a function as the documents write them, without `self`."""
    parts = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        prefix = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(
            parameter.kind, ""
        )
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        parts.append(f"{prefix}{parameter.name}{default}")
    return ", ".join(parts)


@pytest.mark.parametrize("name", TRAINER_METHODS)
def test_trainer_has_the_documented_signature(name):
    assert describe(getattr(tfm.core.base_trainer.Trainer, name)) == TRAINER_METHODS[name]


@pytest.mark.parametrize("name", TASK_METHODS)
def test_task_has_the_documented_signature(name):
    assert describe(getattr(tfm.core.base_task.Task, name)) == TASK_METHODS[name]


@pytest.mark.parametrize("name", TASK_METHODS)
def test_translation_task_has_the_documented_signature(name):
    assert describe(getattr(tfm.nlp.tasks.TranslationTask, name)) == TASK_METHODS[name]


def test_tasks_log_their_loss_as_loss():
    assert tfm.core.base_task.Task.loss == "loss"
    assert tfm.nlp.tasks.TranslationTask.loss == "loss"
    assert isinstance(tfm.nlp.tasks.TranslationTask.task_config, property)
    assert isinstance(tfm.nlp.tasks.TranslationTask.logging_dir, property)


def test_create_optimizer_is_a_class_method():
    assert inspect.ismethod(tfm.core.base_task.Task.create_optimizer)


def test_documented_paths_resolve():
    assert tfm.core.base_trainer.ExperimentConfig is tfm.core.config_definitions.ExperimentConfig
    assert issubclass(tfm.nlp.tasks.TranslationTask, tfm.core.base_task.Task)
    assert tfm.core.base_task.RuntimeConfig is tfm.core.config_definitions.RuntimeConfig
    assert tfm.core.base_task.DifferentialPrivacyConfig
    assert tfm.optimization.OptimizationConfig is tfm.core.base_task.OptimizationConfig
