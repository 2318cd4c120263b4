"""Modules of `official.nlp` that only programs of the Model Garden use."""
