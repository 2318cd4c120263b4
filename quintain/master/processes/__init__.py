"""Processes of trials: launching, supervision, usage, exit."""
