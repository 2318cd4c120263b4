"""Runs `drivers/NAME.cc` with the arithmetic of `csrc/NAME.cc` under the compiler's sanitizers.

All instruction sets of this machine are run, and what is for AMX with tiles in software. Without
optimisation they are compiled in a third of the time, and nothing that is undefined has gone before
it is looked at.
"""

import pathlib
import subprocess

import pytest

from quintain.kernels import building, sources

_DRIVERS = sorted((pathlib.Path(__file__).parent / "drivers").glob("*.cc"))
_FLAGS = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
_ALSO_USED = {"amx_products.cc": ["products.cc"]}
_TILES = [f"-I{_DRIVERS[0].parent}", "-DQUINTAIN_SOFTWARE_TILES"]
_NEWER = ["avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512bf16", "avx512vnni"]


def test_every_kernel_has_a_driver():
    kernels = {unit.source for unit in sources.list_units(()) if unit.instruction_set}

    assert {path.name for path in _DRIVERS} == kernels


@pytest.mark.long("Further cases of a test of which some run every time", but=["decoding"])
@pytest.mark.slow
@pytest.mark.parametrize("driver", _DRIVERS, ids=lambda path: path.stem)
def test_addresses_and_behaviour_are_defined(driver, tmp_path):
    compiler = building.find_compiler()
    used = {"isa.cc", driver.name, *_ALSO_USED.get(driver.name, ())}
    units = [unit for unit in sources.list_units(()) if unit.source in used]
    objects = []
    for unit in units:
        objects.append(tmp_path / unit.output)
        command = [*unit.flags, *_FLAGS, "-O0", "-c", sources.DIRECTORY / unit.source]
        if unit.instruction_set == "amx_bf16":
            command += [*_TILES, *(f"-mno-{name}" for name in _NEWER)]
        subprocess.run([*compiler, *command, "-o", objects[-1]], check=True)
    program = tmp_path / "driver"
    # The driver has the inline functions of the oldest set, which run everywhere.
    defined = ["-DQUINTAIN_ISA=avx2", f"-I{sources.DIRECTORY}"]
    own = ["-std=c++17", "-Wl,--wrap=malloc", *_FLAGS, *defined, *sources.INSTRUCTION_SETS["avx2"]]
    subprocess.run([*compiler, *own, driver, *objects, "-o", program], check=True)

    done = subprocess.run([program], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr[-3000:]


def test_memory_that_kernels_ask_for_may_be_refused():
    asking = {
        path.name for path in sources.DIRECTORY.iterdir() if "malloc(" in path.read_text("utf-8")
    }

    assert asking == {"scratch.h"}, "use `Room`, and return whether there was memory"
