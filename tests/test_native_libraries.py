"""TensorFlow's libraries are loaded in a thread, beside packages that are needed anyway."""

import os
import subprocess
import sys

import pytest

from quintain import native_libraries

pytestmark = pytest.mark.slow


def _run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other loaders")
def test_the_libraries_are_loaded_in_a_thread_that_has_ended_when_tensorflow_is_there():
    output = _run(
        "import os, threading\n"
        "from quintain import native_libraries\n"
        "load, threads = native_libraries._load, []\n"
        "def watched(library):\n"
        "    threads.append(threading.current_thread())\n"
        "    assert 'libtensorflow_cc' not in open('/proc/self/maps').read()\n"
        "    load(library)\n"
        "    assert library in open('/proc/self/maps').read()\n"
        "    print('loaded')\n"
        "native_libraries._load = watched\n"
        "import tensorflow as tf\n"
        "assert threads[0] is not threading.main_thread() and not threads[0].is_alive()\n"
        "print(int(tf.constant(1) + 2))\n"
    )

    assert output == "loaded\n3\n"


def test_nothing_is_imported_meanwhile_that_would_not_be_imported_anyway():
    code = "import sys, {0}; print(*sorted(name for name in {1!r} if name in sys.modules))"
    names = sorted({*native_libraries._BEFORE, *native_libraries._MEANWHILE})

    # Configs are read by YAML, and checked by pydantic.
    found = _run(code.format("keras, tensorflow, pydantic.type_adapter, yaml", names))

    assert found.split() == names
