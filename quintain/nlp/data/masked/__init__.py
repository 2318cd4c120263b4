"""Texts for masked language modelling: words, packing and masks."""
