import dataclasses

import pytest

from quintain import errors
from quintain.core.multitask import configs
from quintain.settings import config_definitions as cfg

# Defaults of the reference; where ours differ, they stand in the second table.
REFERENCE = {
    "train_tf_while_loop": True,
    "train_tf_function": True,
    "eval_tf_function": True,
    "eval_tf_while_loop": False,
    "allow_tpu_summary": False,
    "steps_per_loop": 1000,
    "summary_interval": 1000,
    "checkpoint_interval": 1000,
    "max_to_keep": 5,
    "continuous_eval_timeout": 3600,
    "train_steps": 0,
    "validation_steps": -1,
    "validation_interval": 1000,
    "best_checkpoint_export_subdir": "",
    "best_checkpoint_eval_metric": "",
    "best_checkpoint_metric_comp": "higher",
    "loss_upper_bound": 1e6,
    "recovery_begin_steps": 0,
    "recovery_max_trials": 0,
    "validation_summary_subdir": "validation",
    "preemption_on_demand_checkpoint": True,
}
DIFFERENT = {"loss_upper_bound": None}


def test_the_trainer_has_the_fields_and_defaults_of_the_reference():
    trainer = cfg.TrainerConfig()

    found = {name: trainer.get(name, "missing") for name in REFERENCE}

    assert found == REFERENCE | DIFFERENT
    assert {field.name for field in dataclasses.fields(trainer)} >= {"optimizer_config", *REFERENCE}


@pytest.mark.parametrize("config_class", [cfg.TaskConfig, configs.MultiTaskConfig])
def test_variables_are_excluded_from_a_checkpoint_only_where_there_is_one(config_class):
    config_class(init_checkpoint="runs/mine", init_exclude=["head/*"]).validate()

    with pytest.raises(errors.ConfigError, match=r"init_exclude: got \['head/\*'\] without init_c"):
        config_class(init_exclude=["head/*"]).validate()
