"""Environments of the packages that the training benchmarks compare with, in the user's cache."""

import os
import pathlib
import subprocess
import venv

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
PACKAGES = {
    "torch": [
        "torch==2.13.*", "numpy", "setuptools", "transformers==5.23.*", "accelerate",
        "sentencepiece",
    ],
    "keras": ["keras>=3.13", "tensorflow==2.21.*", "jax", "numpy", "sentencepiece"],
}  # fmt: skip


def find_python(environment: str) -> str:
    """Returns the interpreter of an environment, whose packages are installed where missing."""
    folder = CACHE / "quintain-benchmarks" / f"step-{environment}"
    python = folder / "bin" / "python"
    complete = folder / "complete"
    packages = PACKAGES[environment]
    if not complete.exists():
        venv.create(folder, with_pip=True, clear=True)
    if not complete.exists() or complete.read_text().split() != packages:
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        complete.write_text("\n".join(packages))
    return str(python)
