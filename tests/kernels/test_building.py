import shutil
import subprocess

import pytest

from quintain.kernels import building, library, sealed_files, sources


@pytest.fixture(autouse=True)
def _forget_libraries():
    """What one test finds out about its compiler is not what the next one is told."""
    library._load_once.cache_clear()
    yield
    library._load_once.cache_clear()


def test_says_that_there_is_no_compiler(monkeypatch, tmp_path):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert "there is no C++ compiler (g++ or c++)" in library.find_reason()


def test_says_what_the_compiler_said(monkeypatch, tmp_path):
    compiler = tmp_path / "my compiler"
    compiler.write_text(
        "#!/bin/sh\n[ $1 = --version ] && exit\necho 'x.cc: error: odd' >&2\nexit 1"
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert library.find_reason() == f"{compiler} failed with exit code 1: x.cc: error: odd"


def test_names_what_depends_on_the_compiler_differently():
    assert building.find_key("g++ 12") == building.find_key("g++ 12")
    assert building.find_key("g++ 12") != building.find_key("g++ 13")


def test_names_other_sources_differently(monkeypatch, tmp_path):
    before = sources.fingerprint()
    shutil.copytree(sources.DIRECTORY, tmp_path / "csrc")
    monkeypatch.setattr(sources, "DIRECTORY", tmp_path / "csrc")
    assert sources.fingerprint() == before

    (tmp_path / "csrc" / "isa.h").write_text("// another")

    assert sources.fingerprint() != before


@pytest.mark.slow
def test_no_code_of_one_instruction_set_can_take_the_place_of_anothers(tmp_path):
    """Of a weak symbol that several objects have, the linker keeps one."""
    units = [unit for unit in sources.list_units(()) if unit.instruction_set == "avx2"]
    for unit in units:
        command = [*unit.flags, "-c", sources.DIRECTORY / unit.source, "-o", tmp_path / unit.output]
        subprocess.run([*building.find_compiler(), *command], check=True)

    command = ["nm", "-C", "--defined-only", *tmp_path.iterdir()]
    symbols = subprocess.run(command, check=True, capture_output=True, text=True).stdout

    lines = [line.split(maxsplit=2) for line in symbols.splitlines()]
    assert not [line for line in lines if len(line) == 3 and line[1] in "WVu"]


def test_uses_what_came_with_the_package_if_it_is_whole(monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr(library, "PREBUILT", tmp_path)
    monkeypatch.setattr(
        library, "_open", lambda path, origin: opened.append((path, origin)) or "it"
    )
    monkeypatch.setattr(library, "_load_cached", lambda: "from the cache")
    path = tmp_path / f"{building.find_portable_key()}.so"

    assert library._load_once.__wrapped__() == "from the cache"
    sealed_files.write(path, b"a library")
    assert library._load_once.__wrapped__() == "it"
    path.write_bytes(b"a lib")
    assert library._load_once.__wrapped__() == "from the cache"

    assert opened == [(path, "package")]
