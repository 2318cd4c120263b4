"""Metric loggers of trainings and trials: CSV, MLflow, Weights & Biases."""
