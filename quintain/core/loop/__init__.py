"""Shared parts of trainers: set-up, input and timing."""
