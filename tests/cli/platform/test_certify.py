"""Bad input of `quintain migrate certify`: one message, and nothing is written."""

import pathlib

import numpy as np
import pytest

from quintain.certify import lanes


@pytest.fixture
def write(tmp_path, monkeypatch):
    directory = tmp_path / "mein Übergang"
    directory.mkdir()
    monkeypatch.chdir(directory)

    def write_file(name, text):
        (directory / name).write_text(text, encoding="utf-8")

    return write_file


def test_a_function_that_is_missing(quintain, write):
    write("old.py", "def other():\n    pass\n")

    code, _, stderr = quintain("migrate", "certify", "old.py:build", "old.py")

    assert code == 2
    assert "OLD old.py:build: expected one function build, found none." in stderr


def test_a_file_that_is_no_python_or_not_there(quintain, write):
    write("old.py", "def build(:\n")

    assert "old.py:1: this is no Python" in quintain("migrate", "certify", "old.py", "b.py")[2]
    assert "OLD a.py: No such file" in quintain("migrate", "certify", "a.py", "b.py")[2]


def test_a_batch_without_labels(quintain, write):
    write("old.py", "def build_model():\n    pass\n")
    np.savez("data.npz", x=np.zeros((4, 2)))

    code, _, stderr = quintain("migrate", "certify", "old.py", "old.py", "--batch", "data.npz")

    assert code == 2
    assert "--batch data.npz: got x [4, 2], expected x or named columns, and y" in stderr


def test_a_package_that_is_missing(quintain, write, monkeypatch):
    write("old.py", "def build_model():\n    pass\n")
    monkeypatch.setattr(lanes.importlib.util, "find_spec", lambda name: None)

    code, _, stderr = quintain("migrate", "certify", "old.py", "old.py")

    assert code == 2
    assert "needs the package tf-keras: pip install 'quintain[estimator]'" in stderr


def test_a_directory_for_the_map_that_is_missing(quintain, write):
    code, _, stderr = quintain("migrate", "certify", "a.py", "b.py", "--map", "none/map.json")

    assert code == 2
    assert "none/map.json: there is no directory" in stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nowhere\n\ndef build_model():\n    pass\n", "No module named 'nowhere'"),
        ("def build_model():\n    return 3\n", "the function returned builtins.int, expected a"),
    ],
)
def test_code_that_fails_is_one_message_and_nothing_is_written(quintain, write, text, message):
    write("old.py", text)
    np.savez("data.npz", x=np.zeros((4, 2)), y=np.zeros(4))
    files = ("--batch", "data.npz", "--map", "map.json", "--report", "report.html")

    code, _, stderr = quintain("migrate", "certify", "old.py", "old.py", *files)

    assert code == 2
    assert "OLD old.py:build_model: " in stderr
    assert message in stderr
    assert not pathlib.Path("map.json").exists()
    assert not pathlib.Path("report.html").exists()
