"""Modules of `official.modeling` that only programs of the Model Garden use."""
