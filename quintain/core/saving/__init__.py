"""What a run keeps on disk: checkpoints, what fits them, its logs, its lock and its config."""
