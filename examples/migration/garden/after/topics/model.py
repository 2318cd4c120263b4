"""A classifier that attends to the words of an encoder."""
import tensorflow as tf, tensorflow.keras as tf_keras

from quintain.modeling import tf_utils
from quintain.nlp.modeling import layers
from quintain.nlp.modeling import models
from quintain.nlp.modeling import networks


@tf_keras.utils.register_keras_serializable(package='Topics')
class AttentivePoolingHead(tf_keras.layers.Layer):
  """Weighs words by what they say, and classifies their mean."""

  def __init__(self, num_classes, num_heads=2, inner_dim=32, activation='tanh',
               dropout_rate=0.0, initializer='glorot_uniform', **kwargs):
    super().__init__(**kwargs)
    self._num_classes = num_classes
    self._num_heads = num_heads
    self._inner_dim = inner_dim
    self._activation = tf_utils.get_activation(activation)
    self._dropout_rate = dropout_rate
    self._initializer = tf_keras.initializers.get(initializer)

  def build(self, input_shape):
    width = input_shape[-1]
    self.query = self.add_weight(
        name='query', shape=[1, 1, width], initializer=self._initializer)
    self.attention = layers.MultiHeadAttention(
        num_heads=self._num_heads, key_dim=width // self._num_heads, name='attention')
    self.norm = tf_keras.layers.LayerNormalization(axis=-1, epsilon=1e-6, name='norm')
    self.head = layers.ClassificationHead(
        self._inner_dim, self._num_classes, activation=self._activation,
        dropout_rate=self._dropout_rate, initializer=self._initializer, name='head')
    super().build(input_shape)

  def call(self, sequence):
    query = tf.tile(tf.cast(self.query, sequence.dtype), [tf.shape(sequence)[0], 1, 1])
    pooled = self.norm(self.attention(query=query, value=sequence))
    return self.head(pooled)

  def get_config(self):
    config = {
        'num_classes': self._num_classes,
        'num_heads': self._num_heads,
        'inner_dim': self._inner_dim,
        'activation': tf_utils.serialize_activation(self._activation),
        'dropout_rate': self._dropout_rate,
        'initializer': tf_keras.initializers.serialize(self._initializer),
    }
    base_config = super().get_config()
    return dict(list(base_config.items()) + list(config.items()))

  @property
  def checkpoint_items(self):
    return {'head': self.head}


def build_topic_classifier(params) -> tf_keras.Model:
  """Builds a BertClassifier with the head above, or with its own."""
  encoder_cfg = params.encoder.get()
  encoder = networks.BertEncoder(
      vocab_size=encoder_cfg.vocab_size,
      hidden_size=encoder_cfg.hidden_size,
      num_layers=encoder_cfg.num_layers,
      num_attention_heads=encoder_cfg.num_attention_heads,
      inner_dim=encoder_cfg.intermediate_size,
      inner_activation=tf_utils.get_activation(encoder_cfg.hidden_activation),
      output_dropout=encoder_cfg.dropout_rate,
      attention_dropout=encoder_cfg.attention_dropout_rate,
      max_sequence_length=encoder_cfg.max_position_embeddings,
      type_vocab_size=encoder_cfg.type_vocab_size,
      initializer=tf_keras.initializers.TruncatedNormal(
          stddev=encoder_cfg.initializer_range),
      dict_outputs=True)
  head = None
  if params.head.kind == 'attentive':
    head = AttentivePoolingHead(
        params.num_classes, num_heads=params.head.num_heads,
        inner_dim=params.head.inner_dim, activation=params.head.activation,
        dropout_rate=params.dropout_rate, name='attentive_pooling')
  return models.BertClassifier(
      network=encoder,
      num_classes=params.num_classes,
      dropout_rate=params.dropout_rate,
      use_encoder_pooler=False,
      cls_head=head)
