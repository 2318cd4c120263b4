import keras
import numpy as np
from keras import layers


def batches():
    random = np.random.RandomState(0)
    for _ in range(3):
        tokens = random.randint(1, 40, (32, 10)) * (np.arange(10) < random.randint(2, 11, (32, 1)))
        yield tokens.astype("int32"), random.randint(0, 4, 32)


def build_model():
    uniform = keras.initializers.RandomUniform(-0.25, 0.25)
    model = keras.Sequential([
        keras.Input((10,), dtype="int32"),
        layers.Embedding(40, 8, mask_zero=True, embeddings_initializer=uniform),
        layers.Dropout(0.2),
        layers.LSTM(6, recurrent_initializer="glorot_uniform"),
        layers.Dense(4, name="softmax"),
    ])  # fmt: skip
    model.compile(
        keras.optimizers.SGD(0.5, global_clipnorm=0.5),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model
