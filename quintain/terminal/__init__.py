"""What is shown on a terminal: text that only writes, lines that stay, and bars that move."""
