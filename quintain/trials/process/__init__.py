"""Process of one trial: worker, workloads, checkpoint transfer."""
