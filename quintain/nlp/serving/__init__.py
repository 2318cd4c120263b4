"""Trained language models outside of training: as SavedModels, in Python and over HTTP."""
