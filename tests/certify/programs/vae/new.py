import keras
import numpy as np
import tensorflow as tf
from keras import layers


def batches():
    random = np.random.RandomState(0)
    for _ in range(3):
        images = random.rand(32, 36).astype("float32")
        yield images, images


class Sampling(layers.Layer):
    def call(self, inputs):
        z_mean, z_log_var = inputs
        epsilon = keras.random.normal(shape=tf.shape(z_mean))
        return z_mean + tf.exp(0.5 * z_log_var) * epsilon


class VAE(keras.Model):
    def __init__(self, latent_dim=2, **kwargs):
        super().__init__(**kwargs)
        self.hidden = layers.Dense(16, activation="relu")
        self.z_mean, self.z_log_var = layers.Dense(latent_dim), layers.Dense(latent_dim)
        self.sampling = Sampling()
        self.decoder = keras.Sequential([
            layers.Dense(16, activation="relu"), layers.Dense(36, activation="sigmoid"),
        ])  # fmt: skip

    def call(self, inputs):
        x = self.hidden(inputs)
        z_mean, z_log_var = self.z_mean(x), self.z_log_var(x)
        kl_loss = -0.5 * tf.reduce_mean(z_log_var - tf.square(z_mean) - tf.exp(z_log_var) + 1)
        self.add_loss(kl_loss)
        return self.decoder(self.sampling((z_mean, z_log_var)))


def build_model():
    vae = VAE()
    vae.compile(optimizer="adam", loss="binary_crossentropy")
    return vae
