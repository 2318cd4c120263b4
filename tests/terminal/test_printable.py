import os
import pty
import subprocess
import sys

import pytest

from quintain.cli import output
from quintain.terminal import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ä 日本 🙂\tx\ny", "plain ä 日本 🙂\tx\ny"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b]52;c;eA==\x07", r"\x1b[2J\x1b]52;c;eA==\x07"),
        ("a\rb\x08\x7f\x9b2J", r"a\rb\x08\x7f\x9b2J"),
        ("evil\u202egnp.exe\u2066", r"evil\u202egnp.exe\u2066"),
        ("\0", r"\x00"),
    ],
)
def test_text_that_would_steer_a_terminal_is_shown(text, shown):
    assert printable.clean(text) == shown == printable.clean(shown)


def test_names_and_values_in_tables_are_clean():
    row = {"lr\x1b[2J": "\x1b]0;t\x07"}
    table = output.to_table([row], [output.Column("hparams", lambda row: row)], width=200)
    assert "\x1b" not in table
    assert "\x07" not in table


@pytest.mark.slow
def test_an_error_about_a_name_does_not_steer_the_terminal():
    master, slave = pty.openpty()
    code = "from quintain.cli import main; main.main(['config', 'show', '--experiment=\\x1b[2Jx'])"
    subprocess.run([sys.executable, "-c", code], stdout=slave, stderr=slave, check=False)
    os.close(slave)
    shown = os.read(master, 2**16)
    os.close(master)
    assert b"Error: " in shown
    assert b"\x1b[2J" not in shown
