"""Attention layers of the Model Garden."""
