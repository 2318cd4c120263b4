import dataclasses
import os
import subprocess
import sys
import time

import pytest

from quintain.records import process_identity
from quintain.records.rows import trial


def test_a_process_is_found_with_the_time_it_was_started():
    with subprocess.Popen(["sleep", "30"]) as process:
        identity = process_identity.find(process.pid, "a-1")
        assert (identity.pid, identity.launch_id) == (process.pid, "a-1")
        assert abs(identity.start_time - time.time()) < 5.0
        assert process_identity.is_alive(identity)
        other = dataclasses.replace(identity, mark=f"{identity.mark}0")
        assert not process_identity.is_alive(other)
        process.kill()
    assert not process_identity.is_alive(identity)
    assert process_identity.find(process.pid) is None


@pytest.mark.slow
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


def test_a_corrected_clock_changes_no_identity(monkeypatch):
    identity = process_identity.find(os.getpid())
    monkeypatch.setattr(process_identity, "_read_boot_time", lambda: 3600.0)

    assert process_identity.find(os.getpid()).start_time != identity.start_time
    assert process_identity.find(os.getpid()).mark == identity.mark
    assert process_identity.is_alive(identity)


def test_a_process_of_the_same_number_and_ticks_in_another_container_is_another_one(monkeypatch):
    identity = process_identity.find(os.getpid())
    monkeypatch.setattr(process_identity, "find_place", lambda: "the same boot, another namespace")

    assert not process_identity.is_alive(identity)


def test_an_identity_of_a_former_version_is_no_living_process():
    assert not process_identity.is_alive(trial.ProcessIdentity(os.getpid(), 1.0, "a-1"))


def test_systems_without_proc_are_asked_by_ps(monkeypatch):
    known = process_identity.find(os.getpid())
    monkeypatch.setattr(process_identity, "_HAS_PROC", False)
    process_identity.find_place.cache_clear()

    found = process_identity.find(os.getpid())

    assert abs(found.start_time - known.start_time) < 2.0
    assert process_identity.is_alive(found)
    assert process_identity.find(2**22 + 1) is None
    process_identity.find_place.cache_clear()
