"""Reports beside a run's logs: sizes of models, nested metrics, images."""
