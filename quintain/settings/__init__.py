"""Typed configs of a training: experiment, task, trainer, data, runtime."""
