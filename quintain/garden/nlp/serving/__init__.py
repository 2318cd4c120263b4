"""Exports of the Model Garden's language tasks."""
