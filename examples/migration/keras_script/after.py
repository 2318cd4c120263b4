"""Tells two spirals apart: `before.py` after the steps of README.md.

python after.py RUN_DIRECTORY
"""

import sys

import keras
import numpy as np
import tensorflow as tf

import quintain


@keras.saving.register_keras_serializable("spirals")
class Polar(keras.layers.Layer):
    """Adds radius and angle to points."""

    def call(self, points):
        x, y = points[:, :1], points[:, 1:]
        return keras.ops.concatenate([points, keras.ops.hypot(x, y), keras.ops.arctan2(y, x)], -1)


def load_points(split):
    random = np.random.RandomState({"train": 0, "validation": 1}[split])
    turns = random.uniform(0.2, 1.5, size=600)
    labels = random.randint(0, 2, size=600)
    angles = 2 * np.pi * turns + np.pi * labels
    points = np.stack([turns * np.cos(angles), turns * np.sin(angles)], axis=1)
    points += random.normal(scale=0.03, size=points.shape)
    return points.astype("float32"), labels.astype("int32")


def build_train():
    return build_dataset("train")


def build_validation():
    return build_dataset("validation")


def build_dataset(split):
    dataset = tf.data.Dataset.from_tensor_slices(load_points(split))
    if split == "train":
        dataset = dataset.shuffle(600)
    return dataset.batch(50).prefetch(tf.data.AUTOTUNE)


def build_model():
    points = keras.Input([2], name="points")
    hidden = Polar()(points)
    for _ in range(2):
        hidden = keras.layers.Dense(32, activation="relu")(hidden)
        hidden = keras.layers.Dropout(0.1)(hidden)
    model = keras.Model(points, keras.layers.Dense(2, name="logits")(hidden))
    schedule = keras.optimizers.schedules.CosineDecay(0.01, decay_steps=600)
    model.compile(
        optimizer=keras.optimizers.Adam(schedule),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def main():
    history = quintain.fit(
        build_model,
        build_train,
        build_validation,
        model_dir=sys.argv[1],
        epochs=50,
        monitor="val_accuracy",
        monitor_mode="higher",
        patience=10,
        runtime={"seed": 1},
    )
    print(f"best accuracy: {max(history.history['val_accuracy']):.3f}")


if __name__ == "__main__":
    main()
