"""Quintain trains TensorFlow models and searches their hyperparameters."""

__version__ = "0.1.0"
