"""Training data: files, sources, data service, sampling."""
