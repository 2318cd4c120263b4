"""Age and sex from pictures: two outputs with weights, in Keras 2."""

from tensorflow.keras import Input, Model
from tensorflow.keras.layers import BatchNormalization, Conv2D, Dense, Flatten, MaxPool2D


def build_model():
    image = Input(shape=(12, 12, 3), name="image")
    x = Conv2D(8, 3, activation="relu", name="stem")(image)
    x = MaxPool2D()(BatchNormalization(axis=-1)(x))
    x = Flatten()(x)
    x = Dense(16, activation="relu")(x)
    age = Dense(1, activation="linear", name="age")(x)
    sex = Dense(2, activation="softmax", name="sex")(x)
    model = Model(inputs=image, outputs=[age, sex])
    model.compile(
        optimizer="adam",
        loss={"age": "mse", "sex": "sparse_categorical_crossentropy"},
        loss_weights={"age": 0.25, "sex": 1.0},
        metrics={"age": "mae", "sex": "accuracy"},
    )
    return model
