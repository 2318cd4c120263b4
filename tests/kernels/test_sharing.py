"""Runs `threads/sharing.cc`, the sharing of work among threads, under the sanitizer for threads."""

import pathlib
import shutil
import subprocess

import pytest

from quintain.kernels import building, sources

_DRIVER = pathlib.Path(__file__).parent / "threads" / "sharing.cc"
_FLAGS = ["-g", "-O1", "-fsanitize=thread"]
_OWN = ["-std=c++17", "-Wl,--wrap=malloc", "-DQUINTAIN_ISA=avx2", f"-I{sources.DIRECTORY}"]


@pytest.mark.slow
def test_threads_do_each_part_once_and_wait_for_nobody(tmp_path):
    compiler = building.find_compiler()
    units = [unit for unit in sources.list_units(()) if unit.source in ("isa.cc", "products.cc")]
    objects = []
    for unit in units:
        objects.append(tmp_path / unit.output)
        command = [*unit.flags, *_FLAGS, "-c", sources.DIRECTORY / unit.source]
        subprocess.run([*compiler, *command, "-o", objects[-1]], check=True)
    program = tmp_path / "sharing"
    own = [*_OWN, *_FLAGS, *sources.INSTRUCTION_SETS["avx2"]]
    subprocess.run([*compiler, *own, _DRIVER, *objects, "-pthread", "-o", program], check=True)
    # The sanitizer knows no memory whose place was drawn from as many places as newer kernels do.
    same_place = [shutil.which("setarch"), "-R"] if shutil.which("setarch") else []

    done = subprocess.run([*same_place, program], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr[-3000:]
