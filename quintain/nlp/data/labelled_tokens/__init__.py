"""Texts whose words or spans have labels: files, and the examples of token ids made of them."""
