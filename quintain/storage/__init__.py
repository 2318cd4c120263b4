"""Storage of trials' checkpoints: directories, and object stores by fsspec."""
