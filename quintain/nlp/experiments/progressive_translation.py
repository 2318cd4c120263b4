"""A translation model that grows while it is trained."""

from typing import Any

from quintain.config import base_config
from quintain.core import exp_factory
from quintain.core.progressive import configs
from quintain.nlp.experiments import translation as translation_experiments
from quintain.settings import config_definitions as cfg

_SMALL_STEPS = 600


@exp_factory.register_config_factory("translation/local_progressive")
def translation_local_progressive() -> cfg.ExperimentConfig:
    """As translation/local, but with half the layers and batches first, then grown."""
    plain = translation_experiments.translation_local()
    model: Any = plain.task.model
    small = {
        "model": {
            "encoder": {"num_layers": model.encoder.num_layers // 2},
            "decoder": {"num_layers": model.decoder.num_layers // 2},
        },
        "train_data": {"global_batch_size": plain.task.train_data.global_batch_size // 2},
    }
    return cfg.ExperimentConfig(
        task=plain.task,
        trainer=configs.ProgressiveTrainerConfig(
            **plain.trainer.as_dict(),
            progressive=configs.ProgressiveConfig(
                stages=(
                    configs.StageConfig(num_steps=_SMALL_STEPS, task=base_config.Config(small)),
                    configs.StageConfig(),
                )
            ),
        ),
        runtime=plain.runtime,
    )
