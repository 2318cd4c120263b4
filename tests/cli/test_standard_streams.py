import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
import os, sys
from quintain.cli import standard_streams
standard_streams.open_missing()
{body}
"""


def run(body, **options):
    command = [sys.executable, "-c", SCRIPT.format(body=body)]
    with subprocess.Popen(command, **options) as process:
        yield process


def test_a_command_that_outlives_its_readers_goes_on_and_keeps_what_it_says(tmp_path):
    body = f"""
standard_streams.watch()
standard_streams.outlive_readers({str(tmp_path / "log")!r})
print("first")
sys.stdin.readline()
print("second")
print("third", file=sys.stderr)
os.write(1, b"fourth")
sys.exit(7 if standard_streams.is_lost() else 8)
"""
    for process in run(body, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE):
        assert process.stdout.readline() == b"first\n"
        process.stdout.close()
        process.stderr.close()
        process.stdin.write(b"\n")
        process.stdin.close()
        assert process.wait() == 7
    assert (tmp_path / "log").read_text() == "second\nthird\nfourth"


def test_files_do_not_take_the_places_of_closed_streams(tmp_path):
    body = f"""
with open({str(tmp_path / "database")!r}, "w") as file:
    assert file.fileno() > 2
    print("on standard output")
    os.write(2, b"from a library")
assert sys.stdin.read() == ""
"""
    for process in run(body, preexec_fn=lambda: [os.close(number) for number in range(3)]):
        assert process.wait() == 0
    assert (tmp_path / "database").read_text() == ""


def test_a_list_whose_reader_has_seen_enough_ends_in_silence():
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "quintain.cli.main", "config", "list"]

    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, check=False)

    os.close(write_end)
    assert (done.returncode, done.stderr) == (1, b"")


def run_command(*arguments, **streams):
    command = [sys.executable, "-m", "quintain.cli.main", *arguments]
    return subprocess.run(command, check=False, **streams)


FULL = "/dev/full"
needs_full = pytest.mark.skipif(not os.path.exists(FULL), reason="Linux has it")


@needs_full
def test_a_result_that_can_not_be_printed_is_named_and_is_no_success():
    with open(FULL, "wb") as full:
        done = run_command("config", "list", stdout=full, stderr=subprocess.PIPE)

    assert done.returncode == 2
    assert done.stderr.startswith(b"Error: standard output: No space left on device. Free some")
    assert done.stderr.count(b"\n") == 1


@needs_full
def test_messages_for_which_there_is_no_room_change_no_exit_code(tmp_path, monkeypatch):
    monkeypatch.setenv("QUINTAIN_HOME", str(tmp_path / "home"))
    with open(FULL, "wb") as full:
        done = run_command("experiment", "list", stdout=subprocess.PIPE, stderr=full)
        mistaken = run_command("experment", stdout=subprocess.PIPE, stderr=full)
        lost = run_command("config", "list", stdout=full, stderr=full)

    assert (done.returncode, mistaken.returncode, lost.returncode) == (0, 2, 2)


@needs_full
@pytest.mark.parametrize("prints", [True, False])
def test_work_goes_on_though_there_is_no_room_for_what_it_says(tmp_path, prints):
    body = f"""
import click
from quintain.cli import main
def work(arguments):
    standard_streams.outlive_readers()
    for number in range(3):
        print("message", file=sys.stderr)
        click.echo("result" if {prints} else "message", err=not {prints})
    open({str(tmp_path / "done")!r}, "w").close()
    return 0
main.run = work
main.main([])
"""
    with open(FULL, "wb") as full:
        for process in run(body, stdout=full, stderr=full):
            assert process.wait() == (2 if prints else 0)
    assert (tmp_path / "done").exists()


def test_what_is_said_after_room_was_made_is_written(tmp_path):
    # A file may not be longer than this process is allowed to write, which is like a full disk.
    body = """
import resource
standard_streams.watch()
print("first", file=sys.stderr)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
print("second", file=sys.stderr)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
print("third", file=sys.stderr)
"""
    with open(tmp_path / "log", "wb") as log:
        for process in run(body, stderr=log):
            assert process.wait() == 0
    assert (tmp_path / "log").read_text() == "first\nthird\n"
