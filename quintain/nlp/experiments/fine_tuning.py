"""Fine-tuning of an encoder: the reference's settings, and small models of bundled corpora."""

from typing import Any

from quintain.core import exp_factory
from quintain.nlp.data import (
    question_answering_dataloader,
    sentence_prediction_dataloader,
    tagging_dataloader,
)
from quintain.nlp.experiments import pretraining
from quintain.nlp.tasks import question_answering, sentence_prediction, tagging
from quintain.reference import reference_names
from quintain.settings import config_definitions as cfg

__getattr__ = reference_names.refusing(__name__)

_TRAIN_STEPS = 10_000
_NEEDS_DATA = (
    "task.train_data.is_training != None",
    "task.validation_data.is_training != None",
)


@exp_factory.register_config_factory("bert/sentence_prediction")
def bert_sentence_prediction() -> cfg.ExperimentConfig:
    """Fine-tunes BERT to classify texts or to score them, from TFRecord files of ids."""
    data = sentence_prediction_dataloader.SentencePredictionDataConfig
    task = sentence_prediction.SentencePredictionConfig(
        train_data=data(), validation_data=data(is_training=False, drop_remainder=False)
    )
    return _build_config(task, rate=3e-5)


@exp_factory.register_config_factory("bert/sentence_prediction_text")
def bert_sentence_prediction_text() -> cfg.ExperimentConfig:
    """Fine-tunes BERT to classify texts or to score them, from TSV files or records of text."""
    config = bert_sentence_prediction()
    data = sentence_prediction_dataloader.SentencePredictionTextDataConfig
    config.task.train_data = data()
    config.task.validation_data = data(is_training=False, drop_remainder=False)
    return config


@exp_factory.register_config_factory("bert/tagging")
def bert_tagging() -> cfg.ExperimentConfig:
    """Fine-tunes BERT to label words, such as names, from TFRecord files of ids or from text."""
    data = tagging_dataloader.TaggingDataConfig
    task = tagging.TaggingConfig(
        train_data=data(), validation_data=data(is_training=False, drop_remainder=False)
    )
    return _build_config(task, rate=8e-5)


@exp_factory.register_config_factory("tagging/local")
def tagging_local() -> cfg.ExperimentConfig:
    """Learns to find people, places and dates in bundled sentences; minutes on a CPU."""
    config = bert_tagging()
    config.override(
        _describe_local("names_and_places", "tsv.gz", seq_length=64, train_steps=600, rate=1e-3)
    )
    kinds = ("DATE", "LOC", "PER")
    config.task.class_names = ["O", *(f"{part}-{kind}" for kind in kinds for part in "BI")]
    return config


@exp_factory.register_config_factory("bert/squad")
def bert_squad() -> cfg.ExperimentConfig:
    """Fine-tunes BERT to answer questions on paragraphs, from files of SQuAD 1.1 or 2.0."""
    data = question_answering_dataloader.QADataConfig
    task = question_answering.QuestionAnsweringConfig(
        train_data=data(), validation_data=data(is_training=False, drop_remainder=False)
    )
    return _build_config(task, rate=8e-5)


@exp_factory.register_config_factory("question_answering/local")
def question_answering_local() -> cfg.ExperimentConfig:
    """Learns to answer questions on bundled paragraphs, or that there is no answer; minutes."""
    config = bert_squad()
    config.override(
        _describe_local("questions", "json.gz", seq_length=72, train_steps=1_600, rate=1e-3)
    )
    for data in (config.task.train_data, config.task.validation_data):
        data.override({"version_2_with_negative": True, "query_length": 24, "doc_stride": 24})
    changed = {"vocab_size": 800, "dropout_rate": 0.0, "attention_dropout_rate": 0.0}
    config.override({"task": {"model": {"encoder": {"bert": changed}}}})
    return config


def _build_config(task: cfg.TaskConfig, *, rate: float) -> cfg.ExperimentConfig:
    return cfg.ExperimentConfig(  # type: ignore[call-arg]
        task=task,
        trainer=cfg.TrainerConfig(
            optimizer_config=pretraining.build_optimizer(rate, _TRAIN_STEPS, warmup_steps=1_000),
            train_steps=_TRAIN_STEPS,
        ),
        restrictions=[*_NEEDS_DATA],
    )


def _describe_local(
    corpus: str, suffix: str, *, seq_length: int, train_steps: int, rate: float
) -> dict[str, Any]:
    """Returns the settings of a small encoder and of a bundled corpus."""
    data = {
        "vocab_file": f"bundled:{corpus}/vocabulary.txt",
        "do_lower_case" if suffix.startswith("json") else "lower_case": False,
        "seq_length": seq_length,
        "global_batch_size": 32,
    }
    sizes = {
        "vocab_size": 2_000,
        "hidden_size": 128,
        "num_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 256,
        "max_position_embeddings": seq_length,
        "norm_first": True,
    }
    schedule = {"initial_learning_rate": rate, "decay_steps": train_steps}
    return {
        "task": {
            "model": {"encoder": {"bert": sizes}},
            "train_data": {"input_path": f"bundled:{corpus}/train.{suffix}", **data},
            "validation_data": {"input_path": f"bundled:{corpus}/validation.{suffix}", **data},
        },
        "trainer": {
            "optimizer_config": {
                "learning_rate": {"polynomial": schedule},
                "warmup": {"polynomial": {"warmup_steps": 50}},
            },
            "train_steps": train_steps,
            "steps_per_loop": 50,
            "summary_interval": 50,
            "checkpoint_interval": 200,
            "validation_interval": 200,
            "validation_steps": -1,
        },
        "runtime": {"distribution_strategy": "one_device"},
    }
