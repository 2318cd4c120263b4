"""Configs of optimizers, learning rates and warm-ups. Plain data, without TensorFlow."""
