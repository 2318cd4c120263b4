"""Sums of numbers, character by character, by an encoder and a decoder."""

from tensorflow.keras.layers import GRU, Dense, Input
from tensorflow.keras.models import Model

CHARS, UNITS = 12, 8


def build_model():
    encoder_inputs = Input(shape=(None, CHARS), name="question")
    encoder = GRU(UNITS, return_state=True)
    _, state = encoder(encoder_inputs)
    decoder_inputs = Input(shape=(None, CHARS), name="answer")
    decoder = GRU(UNITS, return_sequences=True, return_state=True)
    outputs, _ = decoder(decoder_inputs, initial_state=state)
    outputs = Dense(CHARS, activation="softmax")(outputs)
    model = Model([encoder_inputs, decoder_inputs], outputs)
    model.compile(optimizer="rmsprop", loss="categorical_crossentropy")
    return model
