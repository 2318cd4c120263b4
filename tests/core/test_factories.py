import dataclasses

import pytest
import tensorflow as tf

from quintain import config, errors
from quintain.core import base_task, exp_factory, task_factory
from quintain.settings import config_definitions as cfg


@dataclasses.dataclass
class ParentConfig(cfg.TaskConfig):
    width: int = 1


@dataclasses.dataclass
class ChildConfig(ParentConfig):
    depth: int = 2


class ParentTask(base_task.Task):
    def build_inputs(self, params, input_context=None):
        return tf.data.Dataset.range(1)


def test_a_subclass_of_a_registered_config_gets_its_task():
    task_factory.register_task_cls(ParentConfig)(ParentTask)

    task = task_factory.get_task(ChildConfig(depth=3), logging_dir="logs", name="child")

    assert isinstance(task, ParentTask)
    assert task.task_config.depth == 3
    assert (task.logging_dir, task.name) == ("logs", "child")


def test_the_nearest_registered_base_wins():
    class ChildTask(ParentTask):
        pass

    task_factory.register_task_cls(ParentConfig)(ParentTask)
    task_factory.register_task_cls(ChildConfig)(ChildTask)

    assert task_factory.get_task_cls(ChildConfig) is ChildTask
    assert task_factory.get_task_cls(ParentConfig) is ParentTask


def test_a_config_without_a_task_is_an_error_that_lists_those_with_one():
    with pytest.raises(LookupError, match=r"'ParentConfig' or its bases. Registered: .*LineConfig"):
        task_factory.get_task(ParentConfig())


def test_a_bound_builder_comes_first():
    @dataclasses.dataclass
    class BoundConfig(ParentConfig):
        pass

    task_factory.register_task_cls(ParentConfig)(ParentTask)

    @config.bind(BoundConfig)
    class BoundTask(ParentTask):
        pass

    assert type(task_factory.get_task(BoundConfig())) is BoundTask


def test_a_task_without_logging_dir_may_write_nothing():
    assert ParentTask(ParentConfig()).logging_dir == ""
    assert ParentTask(ParentConfig()).name == "parent_task"


def test_every_lookup_builds_a_new_config():
    first = exp_factory.get_exp_config("test/line")
    first.trainer.train_steps = 1

    assert exp_factory.get_exp_config("test/line").trainer.train_steps == 40


def test_experiments_are_listed_with_their_first_line():
    assert exp_factory.registered_experiments()["test/line"] == "Learns a line."


def test_an_experiment_can_be_registered_once():
    with pytest.raises(errors.RegistryError, match="registered already"):
        exp_factory.register_config_factory("test/line")(lambda: cfg.ExperimentConfig())
