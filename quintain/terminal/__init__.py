"""Output on terminals: sanitized text, lines that stay, and progress bars."""
