"""What the trainers share: how they are set up, fed and timed."""
