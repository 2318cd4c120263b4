"""Pretraining of BERT and ELECTRA: the reference's settings, and tiny models to try them with."""

from collections.abc import Sequence

from quintain import optimization
from quintain.core import exp_factory
from quintain.nlp.configs import bert, electra, encoders
from quintain.nlp.data import (
    pretrain_dataloader,
    pretrain_dynamic_dataloader,
    pretrain_text_dataloader,
)
from quintain.nlp.tasks import electra_task, masked_lm
from quintain.reference import reference_names
from quintain.settings import config_definitions as cfg

__getattr__ = reference_names.refusing(__name__)

_TRAIN_STEPS = 1_000_000
_WIKI = "wikipedia/20230601.en"
_NEEDS_DATA = (
    "task.train_data.input_path != ''",
    "task.validation_data.input_path != ''",
)
_NEEDS_VOCABULARY = "task.train_data.vocab_file_path != ''"


@exp_factory.register_config_factory("bert/pretraining")
def bert_pretraining() -> cfg.ExperimentConfig:
    """Pretrains BERT on masked words and sentence pairs, from TFRecord files."""
    return _build_config(
        pretrain_dataloader.BertPretrainDataConfig(),
        pretrain_dataloader.BertPretrainDataConfig(is_training=False),
    )


@exp_factory.register_config_factory("bert/pretraining_dynamic")
def bert_dynamic() -> cfg.ExperimentConfig:
    """Pretrains BERT on sequences of different lengths, each padded to one of four."""
    return _build_config(
        pretrain_dynamic_dataloader.BertPretrainDataConfig(),
        pretrain_dataloader.BertPretrainDataConfig(is_training=False),
    )


@exp_factory.register_config_factory("bert/pretraining_text")
def bert_pretraining_text() -> cfg.ExperimentConfig:
    """Pretrains BERT on your own text files, masked on the fly; no sentence pairs."""
    return _build_config(
        *_build_text_data(),
        has_next_sentence=False,
        restrictions=(*_NEEDS_DATA, _NEEDS_VOCABULARY),
    )


@exp_factory.register_config_factory("bert/text_wiki_pretraining")
def bert_text_wiki_pretraining() -> cfg.ExperimentConfig:
    """Pretrains BERT on the English Wikipedia of TensorFlow Datasets, masked on the fly."""
    train_data, validation_data = (
        pretrain_text_dataloader.BertPretrainTextDataConfig(
            tfds_name=_WIKI, tfds_split=split, is_training=is_training
        )
        for split, is_training in (("train[:99%]", True), ("train[99%:]", False))
    )
    return _build_config(train_data, validation_data, restrictions=(_NEEDS_VOCABULARY,))


def _build_text_data() -> tuple[cfg.DataConfig, cfg.DataConfig]:
    """Returns the data of training and of evaluation."""
    data = pretrain_text_dataloader.BertPretrainTextDataConfig
    train_data, validation_data = (
        data(is_training=is_training, use_next_sentence_label=False, tokenization="SentencePiece")
        for is_training in (True, False)
    )
    return train_data, validation_data


def _build_config(
    train_data: cfg.DataConfig,
    validation_data: cfg.DataConfig,
    *,
    has_next_sentence: bool = True,
    restrictions: Sequence[str] = _NEEDS_DATA,
) -> cfg.ExperimentConfig:
    heads = [bert.ClsHeadConfig(name="next_sentence")] if has_next_sentence else []
    return cfg.ExperimentConfig(  # type: ignore[call-arg]
        task=masked_lm.MaskedLMConfig(
            model=bert.PretrainerConfig(cls_heads=heads),
            train_data=train_data,
            validation_data=validation_data,
        ),
        trainer=cfg.TrainerConfig(
            optimizer_config=build_optimizer(1e-4, _TRAIN_STEPS, warmup_steps=10_000),
            train_steps=_TRAIN_STEPS,
        ),
        restrictions=list(restrictions),
    )


@exp_factory.register_config_factory("bert/local")
def bert_local() -> cfg.ExperimentConfig:
    """Runs a tiny BERT on examples of zeros, to try changes of the code in seconds."""
    train_steps = 20
    config = bert_pretraining()
    config.override(
        {
            "task": {
                "model": {
                    "encoder": {
                        "bert": {
                            "vocab_size": 100,
                            "hidden_size": 32,
                            "num_layers": 2,
                            "num_attention_heads": 2,
                            "intermediate_size": 64,
                            "max_position_embeddings": 128,
                        }
                    }
                },
                "train_data": {"input_path": masked_lm.DUMMY_PATH},
                "validation_data": {"input_path": masked_lm.DUMMY_PATH},
            },
            "trainer": {
                "optimizer_config": build_optimizer(1e-3, train_steps, warmup_steps=5).as_dict(),
                "train_steps": train_steps,
                "steps_per_loop": 5,
                "summary_interval": 5,
                "checkpoint_interval": 10,
                "validation_interval": 10,
            },
            "runtime": {"distribution_strategy": "one_device"},
        }
    )
    return config


@exp_factory.register_config_factory("electra/pretraining")
def electra_pretrain() -> cfg.ExperimentConfig:
    """Pretrains ELECTRA on replaced words and sentence pairs, from TFRecord files."""
    return _build_electra(bert_pretraining())


@exp_factory.register_config_factory("electra/pretraining_text")
def electra_pretraining_text() -> cfg.ExperimentConfig:
    """Pretrains ELECTRA on your own text files, masked on the fly; no sentence pairs."""
    return _build_electra(bert_pretraining_text())


def _build_electra(config: cfg.ExperimentConfig) -> cfg.ExperimentConfig:
    """Returns a pretraining of BERT with the task of ELECTRA on the same data."""
    config.task = electra_task.ElectraPretrainConfig(
        train_data=config.task.train_data, validation_data=config.task.validation_data
    )
    return config


@exp_factory.register_config_factory("electra/local")
def electra_local() -> cfg.ExperimentConfig:
    """Pretrains a small ELECTRA on the bundled numbers and dates; minutes on a CPU."""
    train_steps = 4_500
    discriminator, generator = (
        encoders.EncoderConfig(
            bert=encoders.BertEncoderConfig(
                vocab_size=160,  # Pieces of words, which their neighbours tell.
                embedding_size=128,
                hidden_size=width,
                num_layers=layers,
                num_attention_heads=2 * layers,
                intermediate_size=4 * width,
                max_position_embeddings=128,
                dropout_rate=0.0,
                attention_dropout_rate=0.0,
                norm_first=True,  # Learns from the first steps on.
            )
        )
        for width, layers in ((128, 2), (32, 1))
    )
    config = electra_pretraining_text()
    config.task.model = electra.ElectraPretrainerConfig(
        generator_encoder=generator,
        discriminator_encoder=discriminator,
        generator_temperature=3.0,  # Replaced words that are learned soon.
    )
    for name in ("train", "validation"):
        getattr(config.task, f"{name}_data").override(
            {
                "input_path": f"bundled:numbers_and_dates/{name}",
                "seq_length": 16,  # Few positions, which are learned soon.
                "max_predictions_per_seq": 4,
                "masking_rate": 0.25,
                "global_batch_size": 32,
            }
        )
    config.trainer.override(
        {
            "optimizer_config": build_optimizer(2e-3, train_steps, warmup_steps=100).as_dict(),
            "train_steps": train_steps,
            "steps_per_loop": 50,
            "summary_interval": 50,
            "checkpoint_interval": 250,
            "validation_interval": 500,
            "max_to_keep": 3,
        }
    )
    config.runtime.distribution_strategy = "one_device"
    # mypy does not see the constructor arguments that all configs share.
    return cfg.ExperimentConfig(  # type: ignore[call-arg]
        task=config.task, trainer=config.trainer, runtime=config.runtime, restrictions=[]
    )


def build_optimizer(
    rate: float, train_steps: int, *, warmup_steps: int
) -> optimization.OptimizationConfig:
    """Returns Adam with weight decay; its rate rises to `rate`, then falls to 0 in a line.

    Source:
        Devlin et al., 2019, appendix A.2 (https://arxiv.org/abs/1810.04805).
    """
    return optimization.OptimizationConfig(
        {
            "optimizer": {
                "type": "adamw",
                "adamw": {
                    "weight_decay_rate": 0.01,
                    "exclude_from_weight_decay": ["gamma", "beta", "bias"],
                    "epsilon": 1e-6,
                },
            },
            "learning_rate": {
                "type": "polynomial",
                "polynomial": {
                    "initial_learning_rate": rate,
                    "end_learning_rate": 0.0,
                    "decay_steps": train_steps,
                },
            },
            "warmup": {"type": "polynomial", "polynomial": {"warmup_steps": warmup_steps}},
        }
    )
