"""Neural collaborative filtering: factors beside a perceptron."""

from tensorflow import keras
from tensorflow.keras import layers
from tensorflow.keras.regularizers import l2

USERS, ITEMS = 30, 40


def get_model(mf_dim=4, hidden=(16, 8), reg=1e-4):
    user_input = layers.Input(shape=(1,), dtype="int32", name="user_input")
    item_input = layers.Input(shape=(1,), dtype="int32", name="item_input")

    def embed(name, size, dim, x):
        table = layers.Embedding(
            size, dim, name=name, embeddings_initializer="normal", embeddings_regularizer=l2(reg),
            input_length=1,
        )  # fmt: skip
        return layers.Flatten()(table(x))

    mf_user = embed("mf_embedding_user", USERS, mf_dim, user_input)
    mf_item = embed("mf_embedding_item", ITEMS, mf_dim, item_input)
    mf_vector = layers.multiply([mf_user, mf_item])
    mlp_user = embed("mlp_embedding_user", USERS, hidden[0] // 2, user_input)
    mlp_item = embed("mlp_embedding_item", ITEMS, hidden[0] // 2, item_input)
    mlp_vector = layers.concatenate([mlp_user, mlp_item])
    for number, units in enumerate(hidden):
        dense = layers.Dense(
            units, activation="relu", kernel_regularizer=l2(reg), name=f"layer{number}"
        )
        mlp_vector = dense(mlp_vector)
    vector = layers.concatenate([mf_vector, mlp_vector])
    prediction = layers.Dense(
        1, activation="sigmoid", kernel_initializer="lecun_uniform", name="prediction"
    )(vector)
    model = keras.Model([user_input, item_input], prediction)
    model.compile(optimizer=keras.optimizers.Adam(learning_rate=0.001), loss="binary_crossentropy")
    return model
