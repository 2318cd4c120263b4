import keras
import numpy as np
import tensorflow as tf
from keras import layers


def batches():
    random = np.random.RandomState(0)
    for _ in range(3):
        x = {
            "age": random.rand(48, 1).astype("float32"),
            "hours": random.rand(48, 1).astype("float32"),
            "occupation": random.permutation(np.arange(48) % 6),
            "education": random.permutation(np.arange(48) % 4),
        }
        yield x, random.randint(0, 2, (48, 1)).astype("float32")


class WideDeep(keras.Model):
    """Trains the linear part by FTRL and the deep part by Adagrad."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        for optimizer, is_wide in ((self.ftrl, True), (self.optimizer, False)):
            pairs = [
                (tf.convert_to_tensor(gradient), weight)
                for gradient, weight in zip(gradients, self.trainable_variables, strict=True)
                if weight.path.startswith("wide") == is_wide
            ]
            optimizer.apply_gradients(pairs)
        return {"loss": loss}


def build_model():
    age, hours = (keras.Input((1,), name=name) for name in ("age", "hours"))
    occupation, education = (
        keras.Input((), name=name, dtype="int64") for name in ("occupation", "education")
    )
    normal = keras.initializers.TruncatedNormal(stddev=1 / 3**0.5)
    deep = layers.Concatenate()([
        age,
        layers.CategoryEncoding(4, output_mode="one_hot")(education),
        hours,
        layers.Embedding(6, 3, embeddings_initializer=normal, name="occupation_embedding")(
            occupation
        ),
    ])  # fmt: skip
    for units in (10, 5):
        deep = layers.Dense(units, activation="relu")(deep)
    wide = [
        layers.Embedding(size, 1, embeddings_initializer="zeros", name=f"wide_{name}")(column)
        for name, size, column in (("education", 4, education), ("occupation", 6, occupation))
    ]
    wide = WideBias(name="wide_bias")(layers.Add()(wide))
    columns = {"age": age, "hours": hours, "occupation": occupation, "education": education}
    model = WideDeep(columns, layers.Add()([layers.Dense(1)(deep), wide]))
    model.ftrl = keras.optimizers.Ftrl(0.1)
    adagrad = keras.optimizers.Adagrad(0.05, epsilon=0.0)
    model.compile(adagrad, keras.losses.BinaryCrossentropy(from_logits=True))
    return model


class WideBias(layers.Layer):
    """The linear part's bias."""

    def build(self, shape):
        self.bias = self.add_weight(name="bias", shape=(1,), initializer="zeros")

    def call(self, x):
        return x + self.bias
