"""C++ sources of the kernels, and their compiler options."""

import dataclasses
import hashlib
import itertools
import pathlib
from collections.abc import Sequence
from typing import Final

DIRECTORY: Final = pathlib.Path(__file__).parent / "csrc"

_AVX2: Final = ("-mavx2", "-mfma", "-mf16c")
_AVX512: Final = (
    *(*_AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"),
    "-mprefer-vector-width=512",
)
_AVX512_BF16: Final = (*_AVX512, "-mavx512bf16", "-mavx512vnni")

INSTRUCTION_SETS: Final = {
    "avx2": _AVX2,
    "avx512": _AVX512,
    "avx512_bf16": _AVX512_BF16,
    "amx_bf16": _AVX512_BF16,
}
"""Compiler flags by the names of instruction sets, in the order of `Isa` in `csrc/isa.h`.

Functions that use AMX ask for it themselves, so that older compilers need not know the flag.
"""

NEWEST: Final = list(INSTRUCTION_SETS)[-1]
"""The newest instruction set that there are kernels for."""

_FLAGS: Final = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-DNDEBUG", "-w")
_MATH: Final = ("-fno-math-errno", "-fno-trapping-math")
_PORTABLE: Final = ("isa.cc", "translation.cc")
_OPERATIONS: Final = "ops.cc"
_FOR_AMX: Final = "amx_"  # What such files are called; others are compiled for all other sets.


@dataclasses.dataclass(frozen=True)
class Unit:
    """One call of the compiler."""

    source: str
    """Name of the file in `DIRECTORY`."""

    output: str
    """Name of the object it gives."""

    flags: tuple[str, ...]
    """What it is compiled with."""

    instruction_set: str | None = None
    """Key of `INSTRUCTION_SETS`, for arithmetic; None for what runs on every processor."""


def list_units(tensorflow_flags: Sequence[str], newest: str = NEWEST) -> list[Unit]:
    """Returns all that is compiled, what takes longest first.

    Args:
        tensorflow_flags: Where TensorFlow's headers are, and what they need.
        newest: The newest instruction set to compile for.
    """
    number = 1 + list(INSTRUCTION_SETS).index(newest)
    portable = ("-DQUINTAIN_ISA=portable", f"-DQUINTAIN_NEWEST={number}")
    units = [Unit(_OPERATIONS, "ops.o", (*_FLAGS, "-O2", *portable, *tensorflow_flags))]
    units += [Unit(name, f"{name}.o", (*_FLAGS, "-O2", *portable)) for name in _PORTABLE]
    for path in sorted(path for path in DIRECTORY.iterdir() if path.suffix == ".cc"):
        if path.name in (_OPERATIONS, *_PORTABLE):
            continue
        for name, flags in itertools.islice(INSTRUCTION_SETS.items(), number):
            if path.name.startswith(_FOR_AMX) != (name == "amx_bf16"):
                continue
            output = f"{path.stem}.{name}.o"
            # `exp` and the like may be vectorised without `errno`; NaN and infinity stay.
            own = ("-O3", "-fno-exceptions", *_MATH, f"-DQUINTAIN_ISA={name}", *flags)
            units.append(Unit(path.name, output, (*_FLAGS, *own), name))
    return units


def fingerprint() -> str:
    """Returns a hash of all files, and of how they are compiled."""
    digest = hashlib.sha256()
    for path in sorted(DIRECTORY.iterdir()):
        if path.suffix in (".cc", ".h"):
            digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    digest.update(repr(list_units(())).encode())
    return digest.hexdigest()
