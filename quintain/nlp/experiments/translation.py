"""Translation experiments, from a bundled corpus on a laptop to the reference's WMT settings."""

from typing import Any

from quintain import optimization
from quintain.core import exp_factory
from quintain.nlp.data import wmt_dataloader
from quintain.nlp.tasks import translation
from quintain.settings import config_definitions as cfg

_NEEDS_DATA = tuple(
    " or ".join(
        [
            f"task.{data}.input_path != ''",
            f"task.{data}.tfds_name != ''",
            f"task.{data}.hf_name != ''",
            f"task.{data}.mixture != None",
        ]
    )
    for data in ("train_data", "validation_data")
)


@exp_factory.register_config_factory("translation/local")
def translation_local() -> cfg.ExperimentConfig:
    """Learns numbers and dates, English to German, from a bundled corpus; minutes on a CPU."""
    train_steps = 1_600
    data: dict[str, Any] = {"src_lang": "en", "tgt_lang": "de", "max_seq_length": 64}
    return cfg.ExperimentConfig(
        task=translation.TranslationConfig(
            model=_build_model_config(width=128, num_layers=2, num_heads=4, dropout_rate=0.0),
            train_data=wmt_dataloader.WMTDataConfig(
                input_path="bundled:numbers_and_dates/train",
                is_training=True,
                global_batch_size=1024,
                **data,
            ),
            validation_data=wmt_dataloader.WMTDataConfig(
                input_path="bundled:numbers_and_dates/validation",
                is_training=False,
                global_batch_size=128,
                **data,
            ),
            vocab_size=600,
            max_vocab_pairs=6_000,
            print_translations=True,
        ),
        trainer=cfg.TrainerConfig(
            optimizer_config=build_warm_cosine(peak=2e-3, warmup=200, train_steps=train_steps),
            train_steps=train_steps,
            steps_per_loop=20,
            summary_interval=20,
            checkpoint_interval=100,
            validation_interval=400,
            max_to_keep=3,
        ),
        runtime=cfg.RuntimeConfig(distribution_strategy="one_device"),
    )


@exp_factory.register_config_factory("translation/small")
def translation_small() -> cfg.ExperimentConfig:
    """Trains on your own sentence pairs, ten thousands of them, in half an hour on a CPU."""
    train_steps = 1_700
    model = _build_model_config(width=512, num_layers=3, num_heads=8, dropout_rate=0.1)
    own_data = {"input_path": "", "src_lang": "", "tgt_lang": ""}
    config = translation_local()
    config.override(
        {
            "task": {
                "model": {**model.as_dict(), "label_smoothing": 0.1},
                "train_data": {**own_data, "global_batch_size": 2048},
                "validation_data": {**own_data, "global_batch_size": 64, "max_seq_length": 128},
                "vocab_size": 8_000,
                "max_vocab_pairs": 1_000_000,
            },
            "trainer": {
                "optimizer_config": build_warm_cosine(
                    peak=1e-3, warmup=200, train_steps=train_steps
                ).as_dict(),
                "train_steps": train_steps,
                "checkpoint_interval": 200,
                "validation_interval": 850,
            },
        }
    )
    # mypy does not see the constructor arguments that all configs share.
    return cfg.ExperimentConfig(  # type: ignore[call-arg]
        task=config.task,
        trainer=config.trainer,
        runtime=config.runtime,
        restrictions=[*_NEEDS_DATA],
    )


@exp_factory.register_config_factory("translation/fast")
def translation_fast() -> cfg.ExperimentConfig:
    """Trains a small model on your own sentence pairs, ten thousands of them, in five minutes."""
    train_steps = 1_600
    model = _build_model_config(width=256, num_layers=2, num_heads=4, dropout_rate=0.0)
    gated = {"activation": "swiglu", "intermediate_size": 680}  # As many weights as 1,024 of ReLU.
    model.override({"encoder": gated, "decoder": gated})
    optimizer = build_warm_cosine(peak=1e-3, warmup=200, train_steps=train_steps)
    # A higher rate for embeddings pays in the first passes over the pairs, and costs in later ones.
    rates = {"beta_2": 0.999, "learning_rate_factors": {"embedding": 8.0}}
    optimizer.override({"optimizer": {"adam": rates}})
    config = translation_small()
    config.override(
        {
            "task": {
                "model": {**model.as_dict(), "label_smoothing": 0.1},
                "train_data": {"global_batch_size": 512},
            },
            "trainer": {
                "optimizer_config": optimizer.as_dict(),
                "train_steps": train_steps,
                "validation_interval": train_steps,
            },
        }
    )
    return config


@exp_factory.register_config_factory("wmt_transformer/base")
def wmt_transformer_base() -> cfg.ExperimentConfig:
    """Transformer base on your own copy of WMT: width 512, 300,000 steps of 24,576 tokens."""
    return _build_wmt_config(width=512, num_heads=8)


@exp_factory.register_config_factory("wmt_transformer/large")
def wmt_transformer_large() -> cfg.ExperimentConfig:
    """Transformer large on your own copy of WMT: width 1024, 300,000 steps of 24,576 tokens."""
    return _build_wmt_config(width=1024, num_heads=16)


def _build_wmt_config(width: int, num_heads: int) -> cfg.ExperimentConfig:
    """Returns the reference's WMT settings for a Transformer of the given width.

    The reference reads WMT 2014 from a catalogue; here the paths have to be given.
    """
    max_length = 100
    data: dict[str, Any] = {"src_lang": "en", "tgt_lang": "de", "static_batch": True}
    layers = translation.EncDecoder(num_attention_heads=num_heads, intermediate_size=4 * width)
    # mypy does not see the constructor arguments that all configs share.
    return cfg.ExperimentConfig(  # type: ignore[call-arg]
        task=translation.TranslationConfig(
            model=translation.ModelConfig(
                encoder=layers,
                decoder=layers,
                embedding_width=width,
                padded_decode=True,
                decode_max_length=max_length,
            ),
            train_data=wmt_dataloader.WMTDataConfig(
                is_training=True, global_batch_size=24_576, max_seq_length=64, **data
            ),
            validation_data=wmt_dataloader.WMTDataConfig(
                is_training=False, global_batch_size=32, max_seq_length=max_length, **data
            ),
            vocab_size=32_000,
        ),
        trainer=cfg.TrainerConfig(
            optimizer_config=_build_inverse_square_root(width),
            train_steps=300_000,
            validation_steps=-1,
            steps_per_loop=1_000,
            summary_interval=1_000,
            checkpoint_interval=5_000,
            validation_interval=5_000,
            max_to_keep=1,
        ),
        runtime=cfg.RuntimeConfig(enable_xla=True),
        restrictions=["task.train_data.is_training != None", *_NEEDS_DATA],
    )


def _build_inverse_square_root(width: int) -> optimization.OptimizationConfig:
    """Returns Adam under the schedule of the Transformer paper.

    Source:
        Vaswani et al., 2017, section 5.3 (https://arxiv.org/abs/1706.03762), with the longer
        warm-up and the doubled rate of Tensor2Tensor.
    """
    return optimization.OptimizationConfig(
        {
            "optimizer": {"type": "adam", "adam": {"beta_2": 0.997, "epsilon": 1e-9}},
            "learning_rate": {
                "type": "power",
                "power": {"initial_learning_rate": 2.0 * width**-0.5, "power": -0.5},
            },
            "warmup": {
                "type": "linear",
                "linear": {"warmup_steps": 16_000, "warmup_learning_rate": 0.0},
            },
        }
    )


def build_warm_cosine(
    peak: float, warmup: int, train_steps: int
) -> optimization.OptimizationConfig:
    """Returns Adam with clipped gradients; its rate rises to `peak`, then falls to a hundredth."""
    return optimization.OptimizationConfig(
        {
            "optimizer": {
                "type": "adam",
                "adam": {"beta_2": 0.98, "epsilon": 1e-9, "global_clipnorm": 1.0},
            },
            "learning_rate": {
                "type": "cosine",
                "cosine": {
                    "initial_learning_rate": peak,
                    "decay_steps": train_steps,
                    "alpha": 0.01,
                },
            },
            "warmup": {
                "type": "linear",
                "linear": {"warmup_steps": warmup, "warmup_learning_rate": 0.0},
            },
        }
    )


def _build_model_config(
    *, width: int, num_layers: int, num_heads: int, dropout_rate: float
) -> translation.ModelConfig:
    layers = translation.EncDecoder(
        num_layers=num_layers,
        num_attention_heads=num_heads,
        intermediate_size=4 * width,
        dropout_rate=dropout_rate,
        attention_dropout_rate=dropout_rate,
        intermediate_dropout=dropout_rate,
    )
    return translation.ModelConfig(
        encoder=layers,
        decoder=layers,
        embedding_width=width,
        dropout_rate=dropout_rate,
        label_smoothing=0.0,
    )
