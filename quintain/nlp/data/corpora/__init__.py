"""The corpora that come with the package."""
