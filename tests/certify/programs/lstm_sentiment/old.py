"""Sentiment of reviews by an LSTM, in Keras 2."""

from tensorflow.keras import Sequential
from tensorflow.keras.layers import LSTM, Dense, Dropout, Embedding


def build_model(max_features=60, maxlen=12):
    model = Sequential()
    model.add(Embedding(max_features, 8, input_length=maxlen, mask_zero=True))
    model.add(LSTM(6, kernel_regularizer="l2"))
    model.add(Dropout(0.3))
    model.add(Dense(1, activation="sigmoid"))
    model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
    return model
