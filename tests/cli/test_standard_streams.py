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
