"""Modules of `official.core` that only programs of the Model Garden use."""
