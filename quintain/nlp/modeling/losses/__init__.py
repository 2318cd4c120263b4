"""Losses of language tasks."""
