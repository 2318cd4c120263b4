import numpy as np
from keras import Input, Model
from keras.layers import BatchNormalization, Conv2D, Dense, Flatten, MaxPool2D


def batches():
    random = np.random.RandomState(0)
    for _ in range(3):
        images = random.normal(size=(32, 12, 12, 3)).astype("float32")
        age = random.rand(32, 1).astype("float32")
        yield images, {"age": age, "sex": random.randint(0, 2, (32, 1))}


def build_model():
    image = Input(shape=(12, 12, 3), name="image")
    x = Conv2D(8, 3, activation="relu", name="stem")(image)
    x = MaxPool2D()(BatchNormalization(axis=-1)(x))
    x = Flatten()(x)
    x = Dense(16, activation="relu")(x)
    age = Dense(1, activation="linear", name="age")(x)
    sex = Dense(2, activation="softmax", name="sex")(x)
    model = Model(inputs=image, outputs={"age": age, "sex": sex})
    model.compile(
        optimizer="adam",
        loss={"age": "mse", "sex": "sparse_categorical_crossentropy"},
        loss_weights={"age": 0.25, "sex": 1.0},
        metrics={"age": "mae", "sex": "accuracy"},
    )
    return model
