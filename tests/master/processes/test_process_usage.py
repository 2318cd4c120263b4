import os
import subprocess
import sys

import pytest

from quintain.master.processes import process_usage

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")


@pytest.fixture
def start():
    """Returns a function that starts a shell as the leader of a session; all of them end."""
    started = []

    def run(script, num_shells=1):
        process = subprocess.Popen(
            ["sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        started.append(process)
        assert [process.stdout.readline() for _ in range(num_shells)] == ["ready\n"] * num_shells
        return process

    yield run
    for process in started:
        os.killpg(process.pid, 9)
        process.communicate()


def test_all_that_a_process_started_counts(start):
    alone = start("echo ready; read x")
    wait = "sh -c 'echo ready; read x' <&3 &"
    family = start(f"exec 3<&0; {wait} setsid {wait} echo ready; read x", num_shells=3)

    found = process_usage.read([alone.pid, family.pid, 2**22 + 1])

    assert found.keys() == {alone.pid, family.pid}
    assert found[family.pid].memory_bytes > 2 * found[alone.pid].memory_bytes > 0
    assert 0 <= found[alone.pid].age_secs < 60


def test_seconds_of_children_that_have_ended_stay(start):
    process = start("sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'; echo ready; read x")

    assert process_usage.read([process.pid])[process.pid].cpu_secs > 0


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("0, GPU-a, 35, 1024\n", {"0": (35.0, 2**30), "GPU-a": (35.0, 2**30)}),
        ("0, GPU-a, [N/A], 2\n", {"0": (None, 2**21), "GPU-a": (None, 2**21)}),
        ("No devices were found\n", {}),
    ],
)
def test_gpus_are_known_by_number_and_uuid(tmp_path, monkeypatch, answer, found):
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}END\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    shown = {
        name: (gpu.percent, gpu.memory_bytes) for name, gpu in process_usage.read_gpus().items()
    }
    assert shown == found


def test_without_a_driver_nothing_is_known_of_gpus(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert process_usage.read_gpus() == {}
