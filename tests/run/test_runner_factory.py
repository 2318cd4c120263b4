import dataclasses
from typing import ClassVar

import pytest
import tensorflow as tf

from quintain import config
from quintain.core import base_task, task_factory
from quintain.core.multitask import configs
from quintain.run import runner_factory
from quintain.settings import config_definitions as cfg


@dataclasses.dataclass
class SortConfig(cfg.TaskConfig):
    """Sorts numbers."""


@dataclasses.dataclass
class BoundConfig(cfg.TaskConfig):
    """Has a builder instead of a registered class."""


MINOR = base_task.MetricLabel("reversed", is_minor=True)


class SortTask(base_task.Task):
    metric_labels: ClassVar = {"sorted": base_task.MetricLabel("right")}

    @classmethod
    def list_next_commands(cls, params, model_dir):
        return {"sort": f"sort --by={model_dir}", "serve": f"serve {params.name}"}

    def build_inputs(self, params, input_context=None):
        return tf.data.Dataset.range(3)


class ReverseTask(SortTask):
    metric_labels: ClassVar = {"sorted": base_task.MetricLabel("wrong"), "reversed": MINOR}

    @classmethod
    def list_next_commands(cls, params, model_dir):
        return {"reverse": "reverse", "serve": "serve the other"}


@pytest.fixture(autouse=True)
def _registered():
    with task_factory.TASKS.temporarily():
        task_factory.register_task_cls(SortConfig)(SortTask)
        yield
    BoundConfig.BUILDER = None


def several(*tasks):
    routines = [
        configs.TaskRoutine(task_name=f"task_{index}", task_config=task)
        for index, task in enumerate(tasks)
    ]
    task = configs.MultiTaskConfig(task_routines=tuple(routines))
    return configs.MultiTaskExperimentConfig(task=task)


def test_the_losses_come_before_what_the_task_declares():
    labels = runner_factory.merge_metric_labels(cfg.ExperimentConfig(task=SortConfig()))

    assert list(labels) == ["training_loss", "validation_loss", "sorted"]
    assert labels["sorted"].text == "right"


def test_of_several_tasks_the_first_names_a_metric():
    config.bind(BoundConfig)(ReverseTask)

    labels = runner_factory.merge_metric_labels(several(SortConfig(), BoundConfig()))

    assert labels["sorted"].text == "right"
    assert labels["reversed"] is MINOR


def test_the_tasks_say_how_to_go_on():
    single = cfg.ExperimentConfig(task=SortConfig(name="numbers"))
    config.bind(BoundConfig)(ReverseTask)

    assert runner_factory.list_next_commands(single, "runs/a") == {
        "sort": "sort --by=runs/a",
        "serve": "serve numbers",
    }
    assert list(
        runner_factory.list_next_commands(several(BoundConfig(), SortConfig()), "r").items()
    ) == [
        ("reverse", "reverse"),
        ("serve", "serve the other"),
        ("sort", "sort --by=r"),
    ]


def test_a_task_that_a_function_builds_is_shown_as_any_other():
    config.bind(BoundConfig)(lambda params, **kwargs: SortTask(params, **kwargs))
    params = cfg.ExperimentConfig(task=BoundConfig())

    assert list(runner_factory.merge_metric_labels(params)) == ["training_loss", "validation_loss"]
    assert runner_factory.list_next_commands(params, "runs/a") == {}


def test_an_error_in_a_task_with_a_builder_is_not_taken_for_a_missing_task():
    config.bind(BoundConfig)(SortTask)
    params = cfg.ExperimentConfig(task=BoundConfig())

    with (
        pytest.raises(ValueError, match="of the model") as caught,
        runner_factory.task_errors_explained(params, lambda: None),
    ):
        raise ValueError("of the model")

    assert any("SortTask" in note for note in caught.value.__notes__)
