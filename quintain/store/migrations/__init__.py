"""Schema migrations, step by step."""
