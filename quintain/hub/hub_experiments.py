"""Fine-tuning of presets of KerasHub, by their heads; importing this module registers them."""

from quintain import optimization
from quintain.core import exp_factory
from quintain.hub import bundled, configs
from quintain.hub import dpo as dpo
from quintain.hub import sft as sft
from quintain.hub import task as task
from quintain.hub.images import detection_task as detection_task
from quintain.settings import config_definitions as cfg

_TRAIN_STEPS = 1_000
_RESTRICTIONS = [
    "task.model.preset != ''",
    "task.train_data.input_path != '' or task.train_data.tfds_name != ''",
]


@exp_factory.register_config_factory("hub/text_classification")
def text_classification() -> cfg.ExperimentConfig:
    """Fine-tunes a KerasHub preset to classify texts or pairs of texts (JSON Lines, TSV)."""
    return _build("text_classification", fields=("text",))


@exp_factory.register_config_factory("hub/token_classification")
def token_classification() -> cfg.ExperimentConfig:
    """Fine-tunes a KerasHub preset to classify words, such as names (JSON Lines)."""
    return _build("token_classification", fields=("tokens",), label_field="labels")


@exp_factory.register_config_factory("hub/masked_lm")
def masked_lm() -> cfg.ExperimentConfig:
    """Trains a KerasHub preset further on masked words of your texts (JSON Lines, TSV)."""
    return _build("masked_lm", fields=("text",))


@exp_factory.register_config_factory("hub/causal_lm")
def causal_lm() -> cfg.ExperimentConfig:
    """Trains a KerasHub preset further to continue your texts (JSON Lines, TSV)."""
    return _build("causal_lm", fields=("text",))


@exp_factory.register_config_factory("hub/image_classification")
def image_classification() -> cfg.ExperimentConfig:
    """Fine-tunes a KerasHub preset to classify images (a directory of each class, JSON Lines)."""
    return _build("image_classification", fields=("image",))


@exp_factory.register_config_factory("hub/semantic_segmentation")
def semantic_segmentation() -> cfg.ExperimentConfig:
    """Fine-tunes a KerasHub preset to find the class of each pixel (images and masks)."""
    return _build("semantic_segmentation", fields=("image",), label_field="mask")


@exp_factory.register_config_factory("hub/object_detection")
def object_detection() -> cfg.ExperimentConfig:
    """Fine-tunes a RetinaNet of KerasHub to find objects (JSON Lines with boxes, COCO)."""
    config = _build("object_detection", fields=("image",))
    config.task = configs.DetectionConfig(
        train_data=configs.DetectionDataConfig(drop_remainder=True)
    )
    return config


@exp_factory.register_config_factory("hub/sft")
def hub_sft() -> cfg.ExperimentConfig:
    """Fine-tunes a KerasHub preset on conversations (JSON Lines with roles), packed."""
    return _build_talks(configs.SftConfig(), ("messages",), peak=2e-4)


@exp_factory.register_config_factory("hub/dpo")
def hub_dpo() -> cfg.ExperimentConfig:
    """Teaches a KerasHub preset to prefer chosen to rejected answers (JSON Lines of pairs)."""
    return _build_talks(configs.DpoConfig(), ("prompt", "chosen", "rejected"), peak=5e-5)


@exp_factory.register_config_factory("sft/local")
def sft_local() -> cfg.ExperimentConfig:
    """Learns to answer on numbers and days with a tiny GPT made here; minutes on a CPU."""
    config = hub_sft()
    config.override(
        {
            "task": {
                "model": {
                    "preset": bundled.MODEL,
                    "load_weights": False,
                    "sequence_length": 128,
                    "lora": {"rank": 0},
                },
                "template": {"name": "plain"},
                "generation": {"max_new_tokens": 16},
                "train_data": {"input_path": f"{bundled.PREFIX}conversations/train"},
                "validation_data": {"input_path": f"{bundled.PREFIX}conversations/validation"},
            }
        }
    )
    config.trainer = build_trainer(600, peak=3e-3)
    config.trainer.validation_interval = 300
    config.runtime = cfg.RuntimeConfig(distribution_strategy="one_device")
    return config


def _build(
    head: configs.Head, *, fields: tuple[str, ...], label_field: str = "label"
) -> cfg.ExperimentConfig:
    train_data, validation_data = (
        configs.HubDataConfig(
            is_training=is_training,
            drop_remainder=is_training,
            fields=fields,
            label_field=label_field,
        )
        for is_training in (True, False)
    )
    return cfg.ExperimentConfig(  # type: ignore[call-arg]
        task=configs.HubConfig(
            model=configs.ModelConfig(head=head),
            train_data=train_data,
            validation_data=validation_data,
        ),
        trainer=build_trainer(_TRAIN_STEPS, peak=5e-5),
        restrictions=[*_RESTRICTIONS],
    )


def _build_talks(
    task_config: configs.SftConfig, fields: tuple[str, ...], *, peak: float
) -> cfg.ExperimentConfig:
    config = _build("causal_lm", fields=fields)
    config.task = task_config.replace(
        model=configs.ModelConfig(
            head="causal_lm", sequence_length=512, lora=configs.LoraConfig(rank=8)
        ),
        train_data=config.task.train_data,
        validation_data=config.task.validation_data,
    )
    config.trainer = build_trainer(_TRAIN_STEPS, peak=peak)
    return config


def build_trainer(train_steps: int, *, peak: float) -> cfg.TrainerConfig:
    """Returns a training by AdamW, whose rate rises for a tenth of it and falls to 0."""
    optimizer = optimization.OptimizationConfig(
        {
            "optimizer": {"type": "adamw", "adamw": {"weight_decay_rate": 0.01}},
            "learning_rate": {
                "type": "polynomial",
                "polynomial": {
                    "initial_learning_rate": peak,
                    "decay_steps": train_steps,
                    "end_learning_rate": 0.0,
                },
            },
            "warmup": {"type": "linear", "linear": {"warmup_steps": train_steps // 10}},
        }
    )
    return cfg.TrainerConfig(
        optimizer_config=optimizer,
        train_steps=train_steps,
        steps_per_loop=20,
        summary_interval=20,
        checkpoint_interval=100,
        validation_interval=100,
        max_to_keep=3,
    )
