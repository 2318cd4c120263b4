import errno
import os
import signal
from unittest import mock

import pytest

from quintain.master.processes import process_files, supervisor
from quintain.records.rows import log

# Python 3.12 warns of forks where other tests have started threads; these copies only write.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def watch(tmp_path, run, num_kills=0):
    """Watches a process that runs a function, and returns its files and exit."""
    files = process_files.ProcessFiles(str(tmp_path), "7-1")
    stdout, stdout_end = os.pipe()
    stderr, stderr_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.dup2(stdout_end, 1)
        os.dup2(stderr_end, 2)
        run()
        os._exit(0)
    os.close(stdout_end)
    os.close(stderr_end)
    supervisor._watch(files, pid, (stdout, stderr), num_kills)
    os.close(stdout)
    os.close(stderr)
    return files, files.read_exit()


def kill_self():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(("num_kills", "is_short"), [(4, True), (5, False)])
def test_sigkill_is_a_lack_of_memory_if_the_kernel_counted_one(
    tmp_path, monkeypatch, num_kills, is_short
):
    monkeypatch.setattr(supervisor, "count_oom_kills", lambda: 5)
    _, found = watch(tmp_path, kill_self, num_kills)
    assert found.signal == signal.SIGKILL
    assert found.out_of_memory is is_short


def test_another_signal_is_no_lack_of_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "count_oom_kills", lambda: 5)
    _, found = watch(tmp_path, lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert (found.signal, found.out_of_memory) == (signal.SIGTERM, False)


def test_a_line_without_end_is_cut(tmp_path):
    def run():
        for _ in range(3 * 2**16 // 2**10):
            os.write(1, b"x" * 2**10)

    files, found = watch(tmp_path, run)
    rows, _ = files.read_lines(7, 0)
    assert found.exit_code == 0
    assert sum(len(row.text) for row in rows) == 3 * 2**16
    assert len(rows) > 1


def test_streams_that_a_process_closes_do_not_end_it(tmp_path):
    def run():
        os.write(2, b"warning\n")
        os.close(1)
        os.close(2)
        os._exit(4)

    files, found = watch(tmp_path, run)
    assert found.exit_code == 4
    assert files.read_lines(7, 0)[0][0].source is log.LogSource.STDERR


def test_a_grandchild_in_a_session_of_its_own_does_not_hold_the_exit_up(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "_DRAIN_SECS", 0.1)
    told, telling_end = os.pipe()

    def run():
        pid = os.fork()
        if pid == 0:
            os.setsid()
            os.execvp("sleep", ["sleep", "20"])
        os.write(telling_end, str(pid).encode())

    _, found = watch(tmp_path, run)
    assert found.exit_code == 0
    os.kill(int(os.read(told, 20)), signal.SIGKILL)
    os.close(told)
    os.close(telling_end)


def test_the_kernel_is_asked_for_its_count():
    assert supervisor.count_oom_kills() >= 0


def test_systems_without_waitid_are_asked_by_waitpid(monkeypatch):
    monkeypatch.delattr(os, "waitid")
    pid = os.fork()
    if pid == 0:
        os._exit(6)
    while (found := supervisor._find_end(pid)) is None:
        pass
    assert found == (6, None)


@pytest.mark.parametrize("free", [0, 10, 70])
def test_lines_that_find_no_room_are_written_whole_when_there_is(tmp_path, monkeypatch, free):
    files = process_files.ProcessFiles(str(tmp_path), "7-1")
    log_file, write, room = supervisor.LogFile(files.log_path), os.write, [free]

    def write_what_fits(descriptor, data):
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = write(descriptor, data[: room[0]])
        room[0] -= count
        return count

    monkeypatch.setattr(os, "write", write_what_fits)
    log_file.append(log.LogSource.STDOUT, ["first", "second"])
    log_file.append(log.LogSource.STDERR, ["third"])
    room[0] = 10**9
    log_file.append(log.LogSource.STDOUT, [])
    rows, _ = files.read_lines(7, 0)
    assert [row.text for row in rows] == ["first", "second", "third"]


def test_lines_are_kept_for_a_full_disk_up_to_a_limit_and_then_counted(tmp_path, monkeypatch):
    files = process_files.ProcessFiles(str(tmp_path), "7-1")
    log_file = supervisor.LogFile(files.log_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", mock.Mock(side_effect=OSError(errno.ENOSPC, "full")))
        for number in range(40):
            log_file.append(log.LogSource.STDOUT, [f"{number:06}" * 10_000])
    log_file.append(log.LogSource.STDOUT, ["after"])
    rows, _ = files.read_lines(7, 0)
    assert [row.text[:6] if row.text[:6].isdigit() else row.text for row in rows] == [
        *(f"{number:06}" for number in range(18)),
        "22 lines omitted: the disk was full.",
        "after",
    ]


def test_no_two_lines_have_the_same_time(tmp_path):
    files = process_files.ProcessFiles(str(tmp_path), "7-1")
    log_file = supervisor.LogFile(files.log_path)
    log_file.append(log.LogSource.STDOUT, ["same"] * 1000)
    log_file.append(log.LogSource.STDOUT, ["same"] * 1000)
    rows, _ = files.read_lines(7, 0)
    times = [row.time for row in rows]
    assert times == sorted(set(times))
    assert len(times) == 2000


def test_what_is_in_the_pipes_when_the_time_is_up_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "_DRAIN_SECS", -1.0)

    def run():
        os.write(1, b"".join(b"line %d\n" % number for number in range(1000)))
        os._exit(0)

    monkeypatch.setattr(supervisor, "_MOST_LINE_BYTES", 100)
    files, _ = watch(tmp_path, run)
    assert len(files.read_lines(7, 0)[0]) == 1000
