import keras
import pytest

from quintain.core.loop import trainer_setup
from quintain.modeling import unbuilt_layers
from quintain.nlp.modeling import models, networks


@keras.saving.register_keras_serializable("tests")
class OlderHead(keras.layers.Layer):
    """Creates its parts in `build` and leaves their weights to the first call, as in Keras 2."""

    def build(self, input_shape):
        self.attention = keras.layers.MultiHeadAttention(1, input_shape[-1])
        self.logits = keras.layers.Dense(3)
        super().build(input_shape)

    def call(self, inputs):
        return self.logits(self.attention(query=inputs, value=inputs)[:, 0])


def build_encoder():
    return networks.BertEncoder(
        vocab_size=8, hidden_size=4, num_layers=1, num_attention_heads=2, inner_dim=4
    )


@pytest.mark.parametrize(
    "build_model",
    [
        lambda head: models.BertClassifier(
            build_encoder(), 3, use_encoder_pooler=False, cls_head=head
        ),
        lambda head: models.BertPretrainerV2(build_encoder(), classification_heads=[head]),
    ],
)
def test_heads_of_users_have_their_weights_before_training(build_model):
    head = OlderHead(name="older")

    model = build_model(head)

    assert len(head.weights) == 8 + 2
    assert {id(one) for one in head.weights} <= {id(one) for one in model.trainable_variables}
    assert not unbuilt_layers.lacks_weights(model)


def test_a_model_with_unbuilt_parts_needs_a_batch():
    model = keras.Model()
    model.dropout = keras.layers.Dropout(0.1)
    model.built = True
    assert not trainer_setup.needs_batch(model)

    model.head = OlderHead()
    model.head.build((None, 5, 4))

    assert model.head.built
    assert trainer_setup.needs_batch(model)
