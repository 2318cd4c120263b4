"""Sentences and their translations: where they are read, and how they become batches."""
