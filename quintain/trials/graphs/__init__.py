"""Trials of TensorFlow graphs and estimators."""
