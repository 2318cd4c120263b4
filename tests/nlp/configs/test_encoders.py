import pytest
import tensorflow as tf

from quintain import errors
from quintain.nlp.configs import bert, encoders, sentence_prediction
from quintain.nlp.modeling import layers, networks
from quintain.nlp.tasks import masked_lm
from quintain.nlp.tasks import sentence_prediction as sentence_prediction_task
from quintain.settings import config_definitions as cfg

SIZES = {"vocab_size": 20, "hidden_size": 8, "num_layers": 2, "num_attention_heads": 2}
OPTIONS = {
    "albert": {"embedding_width": 6, "intermediate_size": 16},
    "bert": {"embedding_size": 6, "norm_first": True, "intermediate_size": 16},
    "bert_v2": {"intermediate_size": 16, "return_attention_scores": True},
    "fnet": {"max_sequence_length": 4, "attention_layers": [1], "inner_dim": 16},
    "kernel": {"num_random_features": 4, "intermediate_size": 16},
    "query_bert": {"embedding_size": 4, "intermediate_size": 16},
    "reuse": {"reuse_attention": 1, "intermediate_size": 16},
}
BATCH = {
    "input_word_ids": tf.constant([[5, 6, 7, 0], [8, 9, 0, 0]]),
    "input_mask": tf.constant([[1, 1, 1, 0], [1, 1, 0, 0]]),
    "input_type_ids": tf.zeros([2, 4], tf.int32),
    "masked_lm_positions": tf.constant([[1], [0]]),
    "masked_lm_ids": tf.constant([[3], [4]]),
    "masked_lm_weights": tf.ones([2, 1]),
    "label_ids": tf.constant([0, 1]),
}


def make_config(name, **options):
    return encoders.EncoderConfig({"type": name, name: {**SIZES, **OPTIONS[name], **options}})


@pytest.mark.long(
    "Further cases of a test of which some run every time", but=["bert", "query_bert"]
)
@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_every_encoder_is_trained_by_both_tasks(name):
    pretraining = masked_lm.MaskedLMConfig(model=bert.PretrainerConfig(encoder=make_config(name)))
    prediction = sentence_prediction.SentencePredictionConfig(
        model=sentence_prediction.ModelConfig(num_classes=2, encoder=make_config(name)),
    )
    for task in (
        masked_lm.MaskedLMTask(pretraining),
        sentence_prediction_task.SentencePredictionTask(prediction),
    ):
        model = task.build_model()
        with tf.GradientTape() as tape:
            loss = task.build_losses(BATCH, model(BATCH, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)

        assert all(gradient is not None for gradient in gradients)


@pytest.mark.parametrize("name", OPTIONS)
def test_checkpoints_have_all_weights_of_every_encoder(name, tmp_path):
    encoder = encoders.build_encoder(make_config(name))

    path = tf.train.Checkpoint(encoder=encoder).write(str(tmp_path / "ckpt"))

    names = [name for name, _ in tf.train.list_variables(path) if "VARIABLE_VALUE" in name]
    assert len([name for name in names if name.startswith("encoder/")]) == len(encoder.weights)


@pytest.mark.parametrize("name", ["bigbird", "funnel", "mobilebert", "sparse_mixer", "xlnet"])
def test_an_encoder_that_is_not_built_is_refused_by_name_with_the_reason(name):
    config = encoders.EncoderConfig()
    config.type = name

    with pytest.raises(errors.ConfigError, match=f"got '{name}', which is not built here: it"):
        encoders.build_encoder(config)
    assert encoders.EncoderConfig({name: getattr(config, name).as_dict()}).type == "bert"


def test_an_encoder_of_ones_own_needs_no_sizes():
    config = make_config("bert")

    assert encoders.build_encoder(config, encoder_cls=lambda: "own", bypass_config=True) == "own"
    with pytest.raises(errors.ConfigError, match="bypass_config"):
        encoders.build_encoder(config, bypass_config=True)


def test_embeddings_may_be_given():
    shared = layers.OnDeviceEmbedding(vocab_size=20, embedding_width=8)

    encoder = encoders.build_encoder(make_config("bert_v2"), embedding_layer=shared)

    assert encoder.get_embedding_table() is shared.embeddings
    with pytest.raises(errors.ConfigError, match=r"embedding_layer: got one, but .*Albert"):
        encoders.build_encoder(make_config("albert"), embedding_layer=shared)


def test_a_scaffold_gets_the_sizes_of_the_config():
    config = make_config("bert", embedding_size=None)

    encoder = encoders.build_encoder(config, encoder_cls=networks.EncoderScaffold)

    assert len(encoder.hidden_layers) == 2
    assert encoder.hidden_layers[0].norm_first
    assert encoder.get_embedding_table().shape == (20, 8)


@pytest.mark.parametrize("uses_pooler", [True, False])
def test_a_pooler_that_nothing_uses_is_not_trained(uses_pooler):
    task_config = cfg.TaskConfig()
    encoder = encoders.build_task_encoder(make_config("bert"), task_config, uses_pooler=uses_pooler)

    assert encoder.pooler_layer.trainable == uses_pooler
    assert encoder.skip_padding
