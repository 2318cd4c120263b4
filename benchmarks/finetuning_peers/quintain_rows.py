"""Trains a model with a large embedding by `quintain.fit`, and prints what was measured."""

import tempfile
from typing import Any

import rows

import quintain


def fit(model: Any, examples: Any, targets: Any, **options: Any) -> None:
    """Trains in a new directory."""
    with tempfile.TemporaryDirectory() as directory:
        quintain.fit(model, (examples, targets), model_dir=directory, **options)


if __name__ == "__main__":
    rows.run(fit)
