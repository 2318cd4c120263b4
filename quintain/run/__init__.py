"""Runs of an experiment: from a config to the record of a run."""
