"""Strategies, replicas and the hardware below them."""
