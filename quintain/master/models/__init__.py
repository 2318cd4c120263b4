"""Registry of trained models: versions, aliases, and the rule of promotions."""
