"""What interrupts, ends or watches a training between its loops."""
