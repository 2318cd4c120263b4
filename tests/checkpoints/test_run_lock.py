"""One training at a time in a directory."""

import fcntl
import json
import os
import signal
import subprocess
import sys

import pytest

from quintain import errors
from quintain.checkpoints import run_lock

_HOLD = """
import os, sys
from quintain.checkpoints import run_lock
with run_lock.hold(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""
_LEAVE_A_FORK = """
import os, sys
from quintain.checkpoints import run_lock
with run_lock.hold(sys.argv[1]):
    if os.fork() == 0:
        sys.stdin.read()  # Lives on after its parent.
        os._exit(0)
    os.kill(os.getpid(), 9)
"""


def _start(code, directory):
    return subprocess.Popen(
        [sys.executable, "-c", code, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_the_second_run_is_told_who_holds_the_directory_and_since_when(tmp_path):
    with (
        run_lock.hold(str(tmp_path)),
        pytest.raises(errors.ConfigError, match=f"another run: process {os.getpid()} on .* since"),
        run_lock.hold(str(tmp_path)),
    ):
        pass


def test_the_directory_is_free_again_and_as_it_was(tmp_path):
    with run_lock.hold(str(tmp_path)):
        pass
    with run_lock.hold(str(tmp_path)):
        pass

    assert os.listdir(tmp_path) == []


def test_a_directory_made_for_a_run_that_wrote_nothing_goes(tmp_path):
    with run_lock.hold(str(tmp_path / "a [1] ü")):
        assert (tmp_path / "a [1] ü" / run_lock.FILE_NAME).exists()

    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_the_lock_of_a_killed_process_is_taken_over(tmp_path):
    holder = _start(_HOLD, tmp_path)
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(errors.ConfigError, match=f"process {holder.pid} "), run_lock.hold(tmp_path):
        pass

    holder.send_signal(signal.SIGKILL)
    holder.communicate()

    assert json.loads((tmp_path / run_lock.FILE_NAME).read_text())["pid"] == holder.pid
    with run_lock.hold(str(tmp_path)):
        assert json.loads((tmp_path / run_lock.FILE_NAME).read_text())["pid"] == os.getpid()


@pytest.mark.slow
def test_a_fork_that_outlives_the_holder_does_not_keep_the_lock(tmp_path):
    holder = _start(_LEAVE_A_FORK, tmp_path)
    holder.wait()

    with run_lock.hold(str(tmp_path)):
        pass
    holder.communicate()


def test_a_fork_that_ends_does_not_release_the_lock(tmp_path):
    with run_lock.hold(str(tmp_path)):
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)

        with pytest.raises(errors.ConfigError, match="in use"), run_lock.hold(str(tmp_path)):
            pass


@pytest.mark.parametrize("content", ["", "{", "\0\0", "[]", '{"pid": 1}'])
def test_a_damaged_file_still_keeps_others_out(tmp_path, content):
    with run_lock.hold(str(tmp_path)):
        (tmp_path / run_lock.FILE_NAME).write_text(content)

        with pytest.raises(errors.ConfigError, match="does not name"), run_lock.hold(str(tmp_path)):
            pass


def test_without_locks_of_the_file_system_the_run_goes_on_with_a_warning(
    tmp_path, monkeypatch, caplog
):
    def refuse(descriptor, operation):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)

    with run_lock.hold(str(tmp_path)):
        pass

    assert "has no locks (Operation not supported)" in caplog.text


def test_a_directory_behind_a_url_is_not_locked():
    with run_lock.hold("gs://bucket/run"):
        pass


def test_an_evaluation_needs_no_lock(tmp_path):
    with run_lock.hold(str(tmp_path)), run_lock.hold(str(tmp_path), is_needed=False):
        pass


def test_what_ends_a_run_is_told_and_not_that_its_lock_stays(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(ZeroDivisionError), run_lock.hold(str(tmp_path)):
        raise ZeroDivisionError
    monkeypatch.undo()

    with run_lock.hold(str(tmp_path)):
        pass
