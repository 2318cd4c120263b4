"""Where examples come from, in which order, and what is known of their place."""
