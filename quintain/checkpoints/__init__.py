"""Checkpoints of a run: state, writing, restoring, averaging, the best one."""
