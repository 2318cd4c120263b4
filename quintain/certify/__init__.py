"""Certified migration: an older model and its port, compared step by step."""
