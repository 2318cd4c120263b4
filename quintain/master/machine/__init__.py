"""State machines of experiments and trials: events in, effects out."""
