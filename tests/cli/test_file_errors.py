"""What the system refuses is one message with the file and what to do, and exit code 2."""

import errno
import os

import pytest

from quintain.cli import main


class OpError(Exception):
    """What TensorFlow raises has a message, of which the first line ends in the system's words."""

    def __init__(self, message):
        super().__init__(message)
        self.message = message


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            PermissionError(errno.EACCES, os.strerror(errno.EACCES), "runs/a/x"),
            "Error: runs/a/x: Permission denied. Check the owner and the permissions",
        ),
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "runs/a/x"),
            "Error: runs/a/x: No space left on device. Free some space",
        ),
        (
            OpError("runs/a/x; Permission denied"),
            "Error: runs/a/x: Permission denied. Check the owner",
        ),
        (
            OpError("{{function_node __x}} runs/a/x; Read-only file system\n\tmore [Op:Flush]"),
            "Error: runs/a/x: Read-only file system. Make the disk writable",
        ),
        (
            OpError("{{function_node __x}} runs/a/x; Disk quota exceeded [Op:SaveV2]"),
            "Error: runs/a/x: Disk quota exceeded. Free some space or get a larger quota",
        ),
    ],
)
def test_the_system_refuses_a_file(monkeypatch, capsys, error, expected):
    def fail(**kwargs):
        raise error

    monkeypatch.setattr(main.cli, "main", fail)

    assert main.run(["train"]) == 2
    assert capsys.readouterr().err.startswith(expected)


def test_another_error_of_tensorflow_is_none_of_the_system(monkeypatch, capsys):
    def fail(**kwargs):
        raise OpError("Incompatible shapes; [2,3] vs. [4]")

    monkeypatch.setattr(main.cli, "main", fail)

    assert main.run(["train"]) == 1
    assert "Incompatible shapes" in capsys.readouterr().err
