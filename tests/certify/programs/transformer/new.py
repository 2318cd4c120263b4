import keras
import numpy as np
import tensorflow as tf
from keras import layers


def batches():
    random = np.random.RandomState(0)
    return [(random.randint(0, 50, (32, 10)), random.randint(0, 2, 32)) for _ in range(3)]


class GlorotUniform(keras.initializers.Initializer):
    """That of Keras 2, which counts the axes of heads in another way."""

    def __call__(self, shape, dtype=None):
        fans = shape[-2] * shape[0] + shape[-1] * shape[0]
        limit = (6 / fans) ** 0.5
        return keras.initializers.RandomUniform(-limit, limit)(shape, dtype)


class TransformerBlock(layers.Layer):
    def __init__(self, embed_dim, num_heads, ff_dim, rate=0.1):
        super().__init__()
        self.att = layers.MultiHeadAttention(
            num_heads=num_heads, key_dim=embed_dim, kernel_initializer=GlorotUniform()
        )
        self.ffn = keras.Sequential([
            layers.Dense(ff_dim, activation="relu"), layers.Dense(embed_dim),
        ])  # fmt: skip
        self.layernorm1 = layers.LayerNormalization(epsilon=1e-6)
        self.layernorm2 = layers.LayerNormalization(epsilon=1e-6)
        self.dropout1 = layers.Dropout(rate)
        self.dropout2 = layers.Dropout(rate)

    def call(self, inputs, training=None):
        attended = self.dropout1(self.att(inputs, inputs), training=training)
        out1 = self.layernorm1(inputs + attended)
        out2 = self.dropout2(self.ffn(out1), training=training)
        return self.layernorm2(out1 + out2)


class TokenAndPositionEmbedding(layers.Layer):
    def __init__(self, maxlen, vocab_size, embed_dim):
        super().__init__()
        self.token_emb = layers.Embedding(input_dim=vocab_size, output_dim=embed_dim)
        self.pos_emb = layers.Embedding(input_dim=maxlen, output_dim=embed_dim)

    def call(self, x):
        positions = self.pos_emb(tf.range(start=0, limit=tf.shape(x)[-1], delta=1))
        return self.token_emb(x) + positions


def build_model():
    inputs = layers.Input(shape=(10,))
    x = TokenAndPositionEmbedding(10, 50, 8)(inputs)
    x = TransformerBlock(8, 2, 16)(x)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dropout(0.1)(layers.Dense(12, activation="relu")(x))
    outputs = layers.Dense(2, activation="softmax")(x)
    model = keras.Model(inputs=inputs, outputs=outputs)
    model.compile(
        keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    return model
