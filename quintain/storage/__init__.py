"""Where checkpoints of trials are kept: directories, and object stores by fsspec."""
