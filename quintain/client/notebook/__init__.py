"""Experiments and trials in notebooks."""
