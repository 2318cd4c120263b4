"""Master: decides what runs where, and keeps experiments going."""
