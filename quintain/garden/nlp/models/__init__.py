"""Models of the Model Garden."""
