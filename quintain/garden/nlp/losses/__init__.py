"""Losses of the Model Garden."""
