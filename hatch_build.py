"""Puts compiled kernels into a wheel: `QUINTAIN_BUILD_KERNELS=1 python -m build -w --no-isolation`.

The environment that builds it needs TensorFlow and a C++ compiler. Such a wheel is for Linux on
x86-64 and for that version of TensorFlow; with another one, kernels are compiled on first use as
with a wheel without them, which is what is built unless the variable is set.
"""

import os
import pathlib
import shutil
import sys
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "QUINTAIN_BUILD_KERNELS"
_PLACE = "quintain/kernels/prebuilt"


class KernelBuildHook(BuildHookInterface):
    """Compiles the kernels before a wheel is made of the files."""

    _directory: pathlib.Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the library to the wheel, whose tag then names the platform.

        Raises:
            RuntimeError: If it was asked for and can't be built.
        """
        if version == "editable" or os.environ.get(VARIABLE, "0") in ("", "0"):
            return
        sys.path.insert(0, self.root)
        try:
            from quintain.kernels import building, library, sealed_files

            reason = library.find_machine_reason()
            if reason is not None:
                raise RuntimeError(f"{VARIABLE}: there can't be native kernels here: {reason}.")
            self._directory = pathlib.Path(tempfile.mkdtemp(prefix="quintain-wheel-"))
            path = self._directory / f"{building.find_portable_key()}.so"
            sealed_files.write(path, building.build(building.find_compiler(), self._directory))
        finally:
            sys.path.remove(self.root)
        path.chmod(0o644)
        build_data["force_include"][str(path)] = f"{_PLACE}/{path.name}"
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-linux_x86_64"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Removes what was compiled."""
        if self._directory is not None:
            shutil.rmtree(self._directory)
