"""Facts of a run for the receipts of its checkpoints: config, code, data, environment."""

import os
import platform
import sys
from typing import Any, Final

import quintain
from quintain.checkpoints import receipts
from quintain.config import run_header, yaml_io
from quintain.core import user_modules
from quintain.files import file_io
from quintain.input import file_marks
from quintain.kernels import selection
from quintain.run import run_environment, run_files
from quintain.settings import config_definitions as cfg

QUINTAIN: Final = "quintain"
"""Key of this package's version among the hashes of code."""


def find(params: cfg.ExperimentConfig, model_dir: str) -> receipts.Facts:
    """Returns the facts of the run that this process trains."""
    header = read_settings(model_dir)
    kept = (run_header.EXPERIMENT_KEY, run_header.IMPORTS_KEY)
    plain = yaml_io.load_text(yaml_io.dump(params.as_dict()))
    return receipts.Facts(
        config={name: header[name] for name in kept if name in header} | plain,
        code=find_code(),
        data=file_marks.get_known(),
        environment=find_environment(),
    )


def read_settings(model_dir: str) -> dict[str, Any]:
    """Returns the settings in a run's `params.yaml`, without the places of modules."""
    path = run_files.params_path(model_dir)
    settings = yaml_io.load_file(path) if file_io.exists(path) else {}
    settings.pop(run_header.DIRECTORIES_KEY, None)
    return settings


def find_code() -> dict[str, str]:
    """Returns the version of this package, and hashes of the user's modules that are imported."""
    found = {QUINTAIN: quintain.__version__}
    for name, module in list(sys.modules.items()):
        if name.startswith("__autograph_"):  # TensorFlow's, from code that is hashed as well
            continue
        file = getattr(module, "__file__", None) or ""
        if file.endswith(".py") and file_io.isfile(file) and user_modules.is_own(file):
            found[user_modules.name_module(name)] = receipts.hash_file(file)
    return dict(sorted(found.items()))


def find_environment() -> dict[str, str]:
    """Returns versions of packages, the processor, and the kernels of training steps."""
    kernels = selection.describe()
    return {
        "python": platform.python_version(),
        **run_environment.find_versions(),
        "machine": platform.machine(),
        "kernels": kernels.get("used", "tensorflow"),
        "instruction_set": kernels.get("instruction_set", ""),
        "cpus": f"{os.cpu_count()}",
    }
