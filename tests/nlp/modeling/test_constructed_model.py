import keras
import pytest
import tensorflow as tf

from quintain.nlp.modeling import models, networks


def build_encoder(**arguments):
    return networks.BertEncoder(
        vocab_size=8, hidden_size=4, num_layers=1, num_attention_heads=2, inner_dim=4, **arguments
    )


def test_a_model_goes_on_from_the_outputs_of_an_encoder():
    encoder = build_encoder()

    model = keras.Model(encoder.inputs, 2.0 * encoder.outputs[1])

    inputs = [tf.ones((2, 3), tf.int32)] * 3
    assert model(inputs).numpy() == pytest.approx(2.0 * encoder(inputs)[1].numpy())
    assert len(model.trainable_variables) == len(encoder.trainable_variables)


def test_outputs_of_a_dictionary_are_in_the_order_of_names():
    encoder = build_encoder(dict_outputs=True)

    parts = keras.tree.flatten([encoder.output[name] for name in sorted(encoder.output)])
    assert [id(one) for one in encoder.outputs] == [id(one) for one in parts]


@pytest.mark.parametrize(
    "build",
    [
        lambda encoder: models.BertClassifier(encoder, 3),
        lambda encoder: models.BertSpanLabeler(encoder),
        lambda encoder: models.BertTokenClassifier(encoder, 3),
        lambda encoder: models.BertPretrainerV2(encoder),
    ],
)
def test_models_are_parts_of_functional_models(build):
    model = build(build_encoder())

    whole = keras.Model(model.inputs, model.outputs)

    assert {id(one) for one in whole.variables} == {id(one) for one in model.variables}
