import pytest

from quintain import errors
from quintain.core import exp_factory
from quintain.nlp import experiments  # noqa: F401  (registers)
from quintain.nlp.tasks import translation

_NAMES = [
    "translation/local",
    "translation/small",
    "translation/fast",
    "wmt_transformer/base",
    "wmt_transformer/large",
]


@pytest.mark.parametrize("name", _NAMES)
def test_experiments_are_registered_with_a_line_of_explanation(name):
    assert len(exp_factory.registered_experiments()[name]) > 20


@pytest.mark.parametrize("name", _NAMES)
def test_experiments_describe_a_translation_task_and_train(name):
    config = exp_factory.get_exp_config(name)

    assert isinstance(config.task, translation.TranslationConfig)
    assert config.trainer.train_steps > 0


def test_local_needs_nothing_from_the_user():
    exp_factory.get_exp_config("translation/local").validate()


@pytest.mark.parametrize("name", _NAMES[1:])
def test_the_others_need_the_paths_of_the_data(name):
    config = exp_factory.get_exp_config(name)

    with pytest.raises(errors.ConfigError, match=r"task\.train_data\.input_path"):
        config.validate()

    mixture = [{"input_path": "pairs.tsv"}]
    for data in (
        {"input_path": "pairs.tsv"},
        {"tfds_name": "wmt14_translate/de-en", "tfds_split": "train"},
        {"hf_name": "wmt14"},
        {"mixture": mixture},
    ):
        config = exp_factory.get_exp_config(name)
        config.override({"task": {"train_data": data, "validation_data": data}})
        config.validate()


def test_large_has_the_values_of_the_reference():
    config = exp_factory.get_exp_config("wmt_transformer/large")

    model, trainer = config.task.model, config.trainer
    assert (model.embedding_width, model.encoder.num_attention_heads) == (1024, 16)
    assert model.encoder.intermediate_size == model.decoder.intermediate_size == 4096
    assert (model.padded_decode, model.decode_max_length) == (True, 100)
    train_data, validation_data = config.task.train_data, config.task.validation_data
    assert (train_data.global_batch_size, train_data.max_seq_length) == (24_576, 64)
    assert (validation_data.global_batch_size, validation_data.max_seq_length) == (32, 100)
    assert train_data.static_batch
    assert validation_data.static_batch
    assert (trainer.train_steps, trainer.max_to_keep) == (300_000, 1)
    assert trainer.checkpoint_interval == trainer.validation_interval == 5_000
    assert config.runtime.enable_xla


def test_large_has_the_optimizer_of_the_reference():
    optimizer = exp_factory.get_exp_config("wmt_transformer/large").trainer.optimizer_config

    assert optimizer.optimizer.type == "adam"
    assert (optimizer.optimizer.adam.beta_2, optimizer.optimizer.adam.epsilon) == (0.997, 1e-9)
    assert optimizer.learning_rate.power.initial_learning_rate == 2.0 * 1024**-0.5
    assert optimizer.learning_rate.power.power == -0.5
    assert optimizer.warmup.linear.warmup_steps == 16_000


def test_base_is_large_at_half_the_width():
    config = exp_factory.get_exp_config("wmt_transformer/base")

    assert config.task.model.embedding_width == 512
    assert config.task.model.decoder.num_attention_heads == 8
    assert config.task.model.decoder.intermediate_size == 2048
    rate = config.trainer.optimizer_config.learning_rate.power.initial_learning_rate
    assert rate == 2.0 * 512**-0.5


def test_encoder_and_decoder_do_not_share_a_config():
    config = exp_factory.get_exp_config("wmt_transformer/base")
    config.task.model.encoder.num_layers = 3

    assert config.task.model.decoder.num_layers == 6
