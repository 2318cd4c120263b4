"""Registered experiments on images; importing this module registers them."""

from quintain import optimization
from quintain.core import exp_factory
from quintain.settings import config_definitions as cfg
from quintain.vision import image_classification as image_classification
from quintain.vision import image_configs, shapes


@exp_factory.register_config_factory("image/local")
def image_local() -> cfg.ExperimentConfig:
    """Learns drawn shapes with a small ResNet: 98% of new ones right after minutes on a CPU."""
    train_steps = 400
    return cfg.ExperimentConfig(
        task=image_configs.ImageClassificationConfig(
            image_size=(shapes.SIZE, shapes.SIZE),
            augmentation=image_configs.AugmentationConfig(flip="horizontal_and_vertical"),
            train_data=image_configs.ImageDataConfig(
                input_path="drawn:shapes/train", is_training=True, global_batch_size=32
            ),
            validation_data=image_configs.ImageDataConfig(
                input_path="drawn:shapes/validation", is_training=False, global_batch_size=100
            ),
        ),
        trainer=cfg.TrainerConfig(
            optimizer_config=_build_optimizer(5e-3, train_steps),
            train_steps=train_steps,
            steps_per_loop=50,
            summary_interval=50,
            checkpoint_interval=100,
            validation_interval=100,
        ),
        runtime=cfg.RuntimeConfig(distribution_strategy="one_device"),
    )


@exp_factory.register_config_factory("image/classification")
def image_classification_of_folders() -> cfg.ExperimentConfig:
    """Trains a classifier on your own images, such as folders with one sub-folder a class."""
    train_steps = 10_000
    # mypy does not see the constructor arguments that all configs share.
    return cfg.ExperimentConfig(  # type: ignore[call-arg]
        task=image_configs.ImageClassificationConfig(
            augmentation=image_configs.AugmentationConfig(flip="horizontal")
        ),
        trainer=cfg.TrainerConfig(
            optimizer_config=_build_optimizer(1e-3, train_steps), train_steps=train_steps
        ),
        restrictions=[
            f"task.{data}.input_path != '' or task.{data}.tfds_name != ''"
            for data in ("train_data", "validation_data")
        ],
    )


def _build_optimizer(peak: float, train_steps: int) -> optimization.OptimizationConfig:
    """Returns Adam whose rate falls from `peak` to a hundredth."""
    cosine = {"initial_learning_rate": peak, "decay_steps": train_steps, "alpha": 0.01}
    return optimization.OptimizationConfig(
        {
            "optimizer": {"type": "adam", "adam": {"global_clipnorm": 1.0}},
            "learning_rate": {"type": "cosine", "cosine": cosine},
        }
    )
