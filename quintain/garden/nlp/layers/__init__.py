"""Layers of the Model Garden."""
