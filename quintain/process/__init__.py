"""Start-up, signals, exit and ports of processes."""
