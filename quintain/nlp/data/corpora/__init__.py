"""The bundled example corpus, and the grammar that makes it."""
