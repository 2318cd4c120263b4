"""HTTP connections to a master."""
