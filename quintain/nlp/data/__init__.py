"""Data for language tasks: readers, tokenizers, batching and a bundled example corpus."""
