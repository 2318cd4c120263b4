"""Trains a model with a large embedding by Keras' `fit`, and prints what was measured."""

import keras
import rows

if __name__ == "__main__":
    rows.run(keras.Model.fit)
