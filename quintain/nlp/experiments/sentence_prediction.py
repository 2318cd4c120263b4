"""Classification and regression of texts, starting from a pretrained encoder."""

from quintain.core import exp_factory
from quintain.nlp.data import sentence_prediction_dataloader
from quintain.nlp.experiments import pretraining
from quintain.nlp.tasks import sentence_prediction
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
    return cfg.ExperimentConfig(  # type: ignore[call-arg]
        task=sentence_prediction.SentencePredictionConfig(
            train_data=data(), validation_data=data(is_training=False, drop_remainder=False)
        ),
        trainer=cfg.TrainerConfig(
            optimizer_config=pretraining.build_optimizer(3e-5, _TRAIN_STEPS, warmup_steps=1_000),
            train_steps=_TRAIN_STEPS,
        ),
        restrictions=[*_NEEDS_DATA],
    )


@exp_factory.register_config_factory("bert/sentence_prediction_text")
def bert_sentence_prediction_text() -> cfg.ExperimentConfig:
    """Fine-tunes BERT to classify texts or to score them, from TSV files or records of text."""
    config = bert_sentence_prediction()
    data = sentence_prediction_dataloader.SentencePredictionTextDataConfig
    config.task.train_data = data()
    config.task.validation_data = data(is_training=False, drop_remainder=False)
    return config
