"""Transfer of code and checkpoints to and from trial processes."""
