"""Trains one model from one config: tasks, configs, trainer, checkpoints and the experiment driver.

What programs name stands here; what it is made of, in rooms of its own. Modules load on first use,
so that reading a config does not wait for TensorFlow.
"""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    (
        "actions",
        "base_task",
        "base_trainer",
        "config_definitions",
        "distribution",
        "exp_factory",
        "export_base",
        "file_writers",
        "input_reader",
        "multitask",
        "progressive",
        "registry",
        "savedmodel_checkpoint_manager",
        "task_factory",
        "tf_example_builder",
        "tf_example_feature_key",
        "train_lib",
        "train_utils",
    ),
)
