"""The `quintain` command."""
