"""Retrieval by a dual encoder: your own pairs of texts, or a small model of a bundled corpus."""

from quintain.core import exp_factory
from quintain.nlp.configs import encoders
from quintain.nlp.data import dual_encoder_dataloader
from quintain.nlp.experiments import pretraining
from quintain.nlp.tasks import dual_encoder
from quintain.settings import config_definitions as cfg

_NEEDS_DATA = tuple(
    f"task.{data}.input_path != '' or task.{data}.tfds_name != ''"
    for data in ("train_data", "validation_data")
)


@exp_factory.register_config_factory("dual_encoder/text")
def dual_encoder_text() -> cfg.ExperimentConfig:
    """Fine-tunes BERT to find texts that belong together, from TSV, JSON Lines or records."""
    train_steps = 10_000
    data = dual_encoder_dataloader.DualEncoderDataConfig
    return cfg.ExperimentConfig(  # type: ignore[call-arg]
        task=dual_encoder.DualEncoderConfig(
            model=dual_encoder.ModelConfig(logit_scale=20.0, bidirectional=True),
            train_data=data(global_batch_size=128, seq_length=64),
            validation_data=data(
                global_batch_size=128, seq_length=64, is_training=False, drop_remainder=False
            ),
        ),
        trainer=cfg.TrainerConfig(
            optimizer_config=pretraining.build_optimizer(5e-5, train_steps, warmup_steps=1_000),
            train_steps=train_steps,
        ),
        restrictions=[*_NEEDS_DATA],
    )


@exp_factory.register_config_factory("dual_encoder/local")
def dual_encoder_local() -> cfg.ExperimentConfig:
    """Finds German numbers and dates by English ones, from a bundled corpus; minutes on a CPU."""
    train_steps = 400
    config = dual_encoder_text()
    encoder = encoders.BertEncoderConfig(
        vocab_size=600,
        hidden_size=128,
        num_layers=2,
        num_attention_heads=4,
        intermediate_size=512,
        max_position_embeddings=64,
        dropout_rate=0.0,
        attention_dropout_rate=0.0,
        norm_first=True,  # Learns from the first steps on.
    )
    config.task.override({"model": {"encoder": {"bert": encoder.as_dict()}}})
    for name in ("train", "validation"):
        getattr(config.task, f"{name}_data").override(
            {
                "input_path": f"bundled:numbers_and_dates/{name}",
                "tokenization": "SentencePiece",
                "seq_length": 32,
            }
        )
    config.trainer.override(
        {
            "optimizer_config": pretraining.build_optimizer(
                1e-3, train_steps, warmup_steps=50
            ).as_dict(),
            "train_steps": train_steps,
            "steps_per_loop": 20,
            "summary_interval": 20,
            "checkpoint_interval": 100,
            "validation_interval": 100,
            "max_to_keep": 3,
        }
    )
    config.runtime.distribution_strategy = "one_device"
    return config
