"""Compatibility with code for TensorFlow 1, Keras 2 and PEDL."""
