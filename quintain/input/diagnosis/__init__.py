"""Diagnosis of input pipelines: damaged records, positions that can't be saved."""
