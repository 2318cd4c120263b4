"""Experiment configs of the platform."""
