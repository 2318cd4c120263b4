"""Decides what runs where, and keeps experiments going."""
