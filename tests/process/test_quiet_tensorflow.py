"""What TensorFlow writes while it is imported is kept back, and nothing else."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

_LINES = (
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
    "I0000 00:00:1795321887.656954    9635 port.cc:153] oneDNN custom operations are on.\n"
    "E0000 00:00:1795323846.532173   22362 cuda_platform.cc:52] failed call to cuInit: INTERNAL\n"
    "2026-11-22 04:31:26.123456: I tensorflow/core/util/port.cc:153] oneDNN\n"
)


def run(code, tmp_path, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": f"{tmp_path}:{':'.join(sys.path)}", **environment},
    )


def _import(tmp_path, body, **environment):
    """Imports a module that goes by TensorFlow's name, in a process of its own."""
    (tmp_path / "tensorflow.py").write_text(body, "utf-8")
    code = "import quintain, sys, tensorflow; print(type(tensorflow.__spec__.loader).__name__)"
    return run(code, tmp_path, **environment)


def _write(text):
    return f"import os\nos.write(2, {text.encode()!r})\n"


def test_lines_of_the_log_are_kept_back_and_others_are_not(tmp_path):
    done = _import(tmp_path, _write(_LINES + "A word of the user's own.\n"))

    assert done.stderr == "A word of the user's own.\n"
    assert done.stdout == "SourceFileLoader\n"


def test_whoever_asks_for_the_log_gets_it(tmp_path):
    done = _import(tmp_path, _write(_LINES), TF_CPP_MIN_LOG_LEVEL="0")

    assert done.stderr == _LINES


@pytest.mark.parametrize(("given", "expected"), [({}, "3"), ({"TF_CPP_MIN_LOG_LEVEL": "1"}, "1")])
def test_the_level_is_set_for_tensorflow_unless_the_user_has_set_it(tmp_path, given, expected):
    body = "import os\nos.write(1, os.environ['TF_CPP_MIN_LOG_LEVEL'].encode())\n"

    assert _import(tmp_path, body, **given).stdout.startswith(expected)


def test_an_import_that_fails_shows_why(tmp_path):
    done = _import(tmp_path, _write(_LINES) + "raise ImportError('libcudart.so is missing')\n")

    assert "libcudart.so is missing" in done.stderr


@pytest.mark.parametrize("end", ["", "raise ImportError('no')\n"])
@pytest.mark.parametrize("switch", ["enable", "disable"])
def test_garbage_is_not_looked_for_while_tensorflow_is_imported(tmp_path, switch, end):
    (tmp_path / "tensorflow.py").write_text(f"import gc\nprint(gc.isenabled())\n{end}", "utf-8")
    code = (
        "import contextlib, gc, quintain\n"
        f"gc.{switch}()\n"
        "with contextlib.suppress(ImportError): import tensorflow\n"
        "print(gc.isenabled())"
    )
    done = run(code, tmp_path)

    assert not done.returncode, done.stderr
    assert done.stdout.split() == ["False", str(switch == "enable")]


def test_what_an_import_makes_is_old_but_still_found_as_garbage_later(tmp_path):
    body = (
        "import gc, typing\n"
        "made = [[number] for number in range(5000)]\n"
        "made.append(made)\n"
        "code = [typing.ForwardRef('made.One').__forward_code__ for _ in range(2)]\n"
        "print(code[0] is code[1])\n"
    )
    (tmp_path / "tensorflow.py").write_text(body, "utf-8")
    code = (
        "import gc, quintain, sys, typing\n"
        "import tensorflow\n"
        "old = {id(one) for one in gc.get_objects(generation=2)}\n"
        "print(id(tensorflow.made[0]) in old, gc.get_freeze_count(), hasattr(typing, 'compile'))\n"
        "del tensorflow.made\n"
        "print(gc.collect() >= 5000)\n"
    )
    done = run(code, tmp_path)

    assert not done.returncode, done.stderr
    assert done.stdout.split() == ["True", "True", "0", "False", "True"]
