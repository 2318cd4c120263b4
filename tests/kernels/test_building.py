import pathlib
import platform
import shutil
import subprocess
import sys
import time

import pytest
import tensorflow as tf

from quintain.kernels import building, compiler_calls, library, sealed_files, sources


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


def _write_compiler(path, script):
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_ends_a_compiler_that_hangs_and_what_it_started(monkeypatch, tmp_path):
    compiler = tmp_path / "g++"
    _write_compiler(compiler, f"sleep 1000 & echo $! > {tmp_path}/pid; wait")
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setattr(building, "_ANSWER_SECS", 0.5)

    assert library.find_reason() == f"{compiler} did not end within 0.5 s"

    started = pathlib.Path("/proc", (tmp_path / "pid").read_text().strip(), "stat")
    deadline_secs = time.monotonic() + 60  # The signal was sent; it acts once it is looked at.
    while started.exists() and started.read_text().split()[2] != "Z":
        assert time.monotonic() < deadline_secs
        time.sleep(0.01)


def test_a_unit_that_fails_ends_the_others(monkeypatch, tmp_path):
    compiler = tmp_path / "g++"
    _write_compiler(
        compiler, 'case "$*" in *ops.cc*) echo "error: odd" >&2; exit 1;; esac; sleep 1000'
    )
    monkeypatch.setattr(building, "find_headers_reason", lambda: None)

    with pytest.raises(compiler_calls.BuildError, match="exit code 1: error: odd"):
        building.build((str(compiler),), tmp_path)


def test_says_that_the_compiler_was_killed(tmp_path):
    _write_compiler(tmp_path / "g++", "kill -9 $$")

    with pytest.raises(compiler_calls.BuildError, match="was ended by signal 9"):
        building.describe_compiler((str(tmp_path / "g++"),))


def test_says_that_the_compiler_is_too_old(monkeypatch, tmp_path):
    said = "g++: error: unrecognized command line option '-std=c++17'"
    _write_compiler(tmp_path / "g++", f'[ $1 = --version ] && exit; echo "{said}" >&2; exit 1')
    monkeypatch.setenv("CXX", str(tmp_path / "g++"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert said in library.find_reason()


def test_says_that_headers_are_missing(monkeypatch, tmp_path):
    _write_compiler(tmp_path / "g++", "echo version 12")
    monkeypatch.setattr(tf.sysconfig, "get_include", lambda: str(tmp_path))
    monkeypatch.setenv("CXX", str(tmp_path / "g++"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert library.find_reason() == f"TensorFlow's headers are not in {tmp_path}"


@pytest.mark.parametrize("words", [["ccache", "g++"], ["my g++"]])
def test_a_compiler_may_be_called_by_another_program(monkeypatch, tmp_path, words):
    _write_compiler(tmp_path / words[0], "echo version 5")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("CXX", " ".join(words))

    compiler = building.find_compiler()

    assert compiler == (str(tmp_path / words[0]), *words[1:])
    assert building.describe_compiler(compiler).endswith(": version 5")


def test_is_off_on_processors_that_have_no_instruction_set_of_them(monkeypatch):
    monkeypatch.setattr(library, "_read_processor_flags", lambda: {"sse2", "avx"})
    assert library.find_reason() == "the processor has no AVX2 and FMA"
    library._load_once.cache_clear()

    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert "this is Linux on aarch64" in library.find_reason()


def test_names_the_instruction_sets_that_there_are(monkeypatch):
    monkeypatch.setenv("QUINTAIN_INSTRUCTION_SET", "avx1024")

    expected = "got 'avx1024', expected one of avx2, avx512, avx512_bf16, amx_bf16"
    assert library.find_reason() == f"$QUINTAIN_INSTRUCTION_SET: {expected}"


def test_names_what_depends_on_the_compiler_differently():
    assert building.find_key("g++ 12", "avx2") == building.find_key("g++ 12", "avx2")
    assert building.find_key("g++ 12", "avx2") != building.find_key("g++ 13", "avx2")
    assert building.find_key("g++ 12", "avx2") != building.find_key("g++ 12", "avx512")


_AVX512 = {"avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl"}


@pytest.mark.parametrize(
    ("flags", "newest"),
    [
        ({"avx2", "fma"}, "avx2"),
        ({"avx2", "fma", "avx512f", "amx_bf16", "amx_tile"}, "avx2"),
        (_AVX512, "avx512"),
        (_AVX512 | {"avx512_bf16", "avx512_vnni"}, "avx512_bf16"),
        (_AVX512 | {"avx512_bf16", "avx512_vnni", "amx_bf16", "amx_tile"}, "amx_bf16"),
        (None, "amx_bf16"),
    ],
)
def test_compiles_for_the_sets_that_the_processor_has(monkeypatch, flags, newest):
    monkeypatch.setattr(library, "_read_processor_flags", lambda: flags)

    assert library._find_newest() == newest
    sets = list(sources.INSTRUCTION_SETS)
    units = {unit.instruction_set for unit in sources.list_units((), newest)} - {None}
    assert units == set(sets[: 1 + sets.index(newest)])


@pytest.mark.long("It compiles three libraries")
@pytest.mark.slow
@pytest.mark.parametrize("newest", list(sources.INSTRUCTION_SETS)[:-1])
def test_a_library_for_older_processors_loads(tmp_path, newest):
    path = tmp_path / "library.so"
    path.write_bytes(building.build(building.find_compiler(), tmp_path, newest))

    script = (
        "import ctypes, sys; import tensorflow as tf; tf.load_op_library(sys.argv[1]); "
        "print(ctypes.CDLL(sys.argv[1]).quintain_limit_isa(4))"
    )
    told = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    assert 1 <= int(told.stdout) <= 1 + list(sources.INSTRUCTION_SETS).index(newest)


def test_names_other_sources_differently(monkeypatch, tmp_path):
    before = sources.fingerprint()
    shutil.copytree(sources.DIRECTORY, tmp_path / "csrc")
    monkeypatch.setattr(sources, "DIRECTORY", tmp_path / "csrc")
    assert sources.fingerprint() == before

    (tmp_path / "csrc" / "isa.h").write_text("// another")

    assert sources.fingerprint() != before


@pytest.mark.long("It compiles each library anew")
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
