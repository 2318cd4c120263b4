"""Where metrics of trainings and trials are sent besides the run: CSV, MLflow, Weights & Biases."""
