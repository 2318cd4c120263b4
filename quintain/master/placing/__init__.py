"""Placement of trials on slots of machines."""
