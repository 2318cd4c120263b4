"""Training of Keras models that come without a task."""
