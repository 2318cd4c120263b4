"""Feed of changes to browsers and followers."""
