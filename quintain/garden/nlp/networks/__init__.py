"""Encoders of the Model Garden."""
