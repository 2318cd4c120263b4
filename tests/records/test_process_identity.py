import dataclasses
import os
import subprocess
import sys
import time

import pytest

from quintain.records import process_identity


def test_a_process_is_found_with_the_time_it_was_started():
    with subprocess.Popen(["sleep", "30"]) as process:
        identity = process_identity.find(process.pid, "a-1")
        assert (identity.pid, identity.launch_id) == (process.pid, "a-1")
        assert abs(identity.start_time - time.time()) < 5.0
        assert process_identity.is_alive(identity)
        other = dataclasses.replace(identity, start_time=identity.start_time - 10.0)
        assert not process_identity.is_alive(other)
        process.kill()
    assert not process_identity.is_alive(identity)
    assert process_identity.find(process.pid) is None


def test_a_process_that_nobody_collected_has_ended():
    process = subprocess.Popen([sys.executable, "-c", ""])
    identity = process_identity.find(process.pid)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert identity is not None
    assert not process_identity.is_alive(identity)
    process.wait()


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1])
def test_a_number_of_no_process_is_none(pid):
    assert process_identity.find(pid) is None


def test_systems_without_proc_are_asked_by_ps():
    found = process_identity._find_posix_start_time(os.getpid())
    assert abs(found - process_identity.find(os.getpid()).start_time) < 2.0
