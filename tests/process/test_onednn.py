"""Threads share no compiled products of oneDNN, whose scratch memory would be too small."""

import subprocess
import sys

import pytest

from quintain.process import onednn

_PROGRAM = """
import threading

import quintain
import tensorflow as tf

def multiply():
    tf.einsum("BNFT,BFNH->BTNH", tf.ones([32, 2, 1, 16]), tf.ones([32, 1, 2, 16]))

for _ in range(2):
    thread = threading.Thread(target=multiply)
    thread.start()
    thread.join()
"""


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize(("capacity", "is_shared"), [(None, False), ("1024", True)])
def test_a_product_is_compiled_by_each_thread_unless_the_user_wants_it_shared(
    monkeypatch, capacity, is_shared
):
    monkeypatch.delenv(onednn.CAPACITY_VARIABLE, raising=False)
    monkeypatch.setenv("ONEDNN_VERBOSE", "profile_create")
    if capacity is not None:
        monkeypatch.setenv(onednn.CAPACITY_VARIABLE, capacity)

    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True
    )

    lines = [line for line in done.stdout.splitlines() if ",matmul," in line]
    if not lines:
        pytest.skip("TensorFlow does not multiply by oneDNN on this machine")
    assert any("cache_hit" in line for line in lines) == is_shared
    assert any("cache_miss" in line for line in lines)
