"""Differentially private training: clipped gradients, and the account of what they spend."""
