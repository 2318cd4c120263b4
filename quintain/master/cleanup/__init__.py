"""Deletion of checkpoints and directories."""
