import numpy as np
from keras.layers import GRU, Dense, Input
from keras.models import Model

CHARS, UNITS = 12, 8


def batches():
    random, one_hot = np.random.RandomState(0), np.eye(CHARS, dtype="float32")
    for _ in range(3):
        question = one_hot[random.randint(0, CHARS, (16, 7))]
        answer = one_hot[random.randint(0, CHARS, (16, 5))]
        yield [question, answer[:, :-1]], answer[:, 1:]


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
