"""Programs prepare their process before they import TensorFlow."""

import contextlib
import gc
import os
import subprocess
import sys

import pytest

from quintain.process import start_up

_LINES = (
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
    "I0000 00:00:1795321887.656954    9635 port.cc:153] oneDNN custom operations are on.\n"
    "E0000 00:00:1795323846.532173   22362 cuda_platform.cc:52] failed call to cuInit: INTERNAL\n"
    "2026-11-22 04:31:26.123456: I tensorflow/core/util/port.cc:153] oneDNN\n"
)
_OWN_LINE = "A word of the user's own.\n"

_PROGRAM = """
import threading

from quintain.process import start_up
start_up.prepare()
import tensorflow as tf

def multiply():
    tf.einsum("BNFT,BFNH->BTNH", tf.ones([32, 2, 1, 16]), tf.ones([32, 1, 2, 16]))

for _ in range(2):
    thread = threading.Thread(target=multiply)
    thread.start()
    thread.join()
"""


def test_only_errors_are_logged_unless_the_log_is_shown(monkeypatch):
    monkeypatch.delenv(start_up.LEVEL_VARIABLE, raising=False)
    start_up.prepare()
    assert os.environ[start_up.LEVEL_VARIABLE] == "3"

    monkeypatch.delenv(start_up.LEVEL_VARIABLE)
    start_up.prepare(shows_log=True)
    assert os.environ[start_up.LEVEL_VARIABLE] == "0"


def test_what_the_user_has_set_stays(monkeypatch):
    monkeypatch.setenv(start_up.LEVEL_VARIABLE, "1")
    monkeypatch.setenv(start_up.CAPACITY_VARIABLE, "1024")

    start_up.prepare()

    assert os.environ[start_up.LEVEL_VARIABLE] == "1"
    assert os.environ[start_up.CAPACITY_VARIABLE] == "1024"


def test_garbage_is_not_looked_for_during_imports():
    with start_up.without_collecting():
        assert not gc.isenabled()

    assert gc.isenabled()


@pytest.mark.parametrize(("level", "expected"), [("3", _OWN_LINE), ("0", _LINES + _OWN_LINE)])
def test_lines_of_the_log_are_dropped_during_imports_and_others_are_not(
    monkeypatch, capfd, level, expected
):
    monkeypatch.setenv(start_up.LEVEL_VARIABLE, level)

    with contextlib.suppress(ImportError), start_up.quiet_imports():
        os.write(2, (_LINES + _OWN_LINE).encode())
        raise ImportError

    assert capfd.readouterr().err == expected


@pytest.mark.long("Further cases of a test of which some run every time", but=["1024-True"])
@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize(("capacity", "is_shared"), [(None, False), ("1024", True)])
def test_a_product_is_compiled_by_each_thread_unless_the_user_wants_it_shared(
    monkeypatch, capacity, is_shared
):
    monkeypatch.delenv(start_up.CAPACITY_VARIABLE, raising=False)
    monkeypatch.setenv("ONEDNN_VERBOSE", "profile_create")
    if capacity is not None:
        monkeypatch.setenv(start_up.CAPACITY_VARIABLE, capacity)

    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True
    )

    lines = [line for line in done.stdout.splitlines() if ",matmul," in line]
    if not lines:
        pytest.skip("TensorFlow does not multiply by oneDNN on this machine")
    assert any("cache_hit" in line for line in lines) == is_shared
    assert any("cache_miss" in line for line in lines)
