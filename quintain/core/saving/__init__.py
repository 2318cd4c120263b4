"""Files of a run: checkpoints, logs, lock and config."""
