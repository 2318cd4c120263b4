import pytest

from quintain import errors
from quintain.core import exp_factory, task_factory
from quintain.nlp import experiments
from quintain.nlp.data import (
    pretrain_dataloader,
    pretrain_dynamic_dataloader,
    pretrain_text_dataloader,
    sentence_prediction_dataloader,
)
from quintain.nlp.tasks import masked_lm, sentence_prediction

TEXT = pretrain_text_dataloader.BertPretrainTextDataConfig
NAMES = {
    "bert/pretraining": (pretrain_dataloader.BertPretrainDataConfig, 1),
    "bert/pretraining_dynamic": (pretrain_dynamic_dataloader.BertPretrainDataConfig, 1),
    "bert/pretraining_text": (TEXT, 0),
    "bert/text_wiki_pretraining": (TEXT, 1),
}


@pytest.mark.parametrize("name", NAMES)
def test_experiments_build_their_tasks(name):
    assert experiments.pretraining
    data_class, num_heads = NAMES[name]

    config = exp_factory.get_exp_config(name)
    task = task_factory.get_task(config.task)

    assert isinstance(task, masked_lm.MaskedLMTask)
    assert type(config.task.train_data) is data_class
    assert config.task.train_data.global_batch_size == 512
    assert config.task.train_data.is_training
    assert not config.task.validation_data.is_training
    assert len(config.task.model.cls_heads) == num_heads
    assert config.trainer.train_steps == 1_000_000


@pytest.mark.parametrize(
    ("name", "data_class"),
    [
        (
            "bert/sentence_prediction",
            sentence_prediction_dataloader.SentencePredictionDataConfig,
        ),
        (
            "bert/sentence_prediction_text",
            sentence_prediction_dataloader.SentencePredictionTextDataConfig,
        ),
    ],
)
def test_fine_tuning_needs_the_number_of_classes(name, data_class):
    config = exp_factory.get_exp_config(name)
    with pytest.raises(errors.ConfigError, match="num_classes: got 0"):
        task_factory.get_task(config.task)

    config.task.model.num_classes = 3
    task = task_factory.get_task(config.task)

    assert isinstance(task, sentence_prediction.SentencePredictionTask)
    assert type(config.task.train_data) is data_class
    assert config.task.model.encoder.get().hidden_size == 768


def test_experiments_share_nothing():
    first, second = (exp_factory.get_exp_config("bert/pretraining_text") for _ in range(2))

    first.task.train_data.seq_length = 64
    first.trainer.train_steps = 5

    assert second.task.train_data.seq_length == 512
    assert first.task.validation_data.seq_length == 512
    assert second.trainer.train_steps == 1_000_000
