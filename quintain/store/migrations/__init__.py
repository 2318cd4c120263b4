"""The steps by which a database of an older version gets today's schema."""
