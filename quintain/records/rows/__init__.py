"""Records of the store: experiments, trials, metrics, checkpoints."""
