"""What a run tells beside its logs: sizes of models, nested metrics, images."""
