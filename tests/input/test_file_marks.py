"""Files of training data that changed between two starts are told of."""

import pytest
import tensorflow as tf

from quintain.checkpoints import checkpoint_state
from quintain.input import file_marks, input_files


@pytest.fixture(autouse=True)
def _known(monkeypatch):
    monkeypatch.setattr(file_marks, "_known", {})


def position(path, *, num_batches=2, is_training=True):
    """Returns the position in data that are read from a file, as a new process has it."""
    file_marks._known.clear()
    with file_marks.files_noted(is_training=is_training):
        (found,) = input_files.match_files(str(path))
    iterator = iter(tf.data.TextLineDataset(found).repeat())
    return checkpoint_state.DataPosition(lambda: iterator, lambda: num_batches)


CHANGES = {
    "cut": (lambda text: text[:400], "now 400 bytes"),
    "added to": (lambda text: text + "more\n", "now "),
    "of the same size": (lambda text: text.replace("line 5\n", "line 6\n"), "now "),
}


@pytest.mark.parametrize("restore", ["deserialize", "skip_batches"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_file_is_told_of(tmp_path, caplog, restore, change):
    path = tmp_path / "a [1].txt"
    path.write_text("".join(f"line {number}\n" for number in range(1000)))
    saved = position(path).serialize()
    getattr(position(path), restore)(saved)
    assert "changed" not in caplog.text

    alter, words = CHANGES[change]
    path.write_text(alter(path.read_text()))
    getattr(position(path), restore)(saved)

    assert f"The training data changed since the checkpoint was saved: {path} (" in caplog.text
    assert words in caplog.text


def test_only_training_data_that_were_used_count(tmp_path, caplog):
    path = tmp_path / "a.txt"
    path.write_text("a\nb\n")
    saved = [
        position(path, is_training=False).serialize(),
        position(path, num_batches=0).serialize(),
    ]
    path.write_text("c\n")
    for each in saved:
        position(path).deserialize(each)

    assert "changed" not in caplog.text


def test_positions_of_former_versions_know_no_files(tmp_path, caplog):
    path = tmp_path / "a.txt"
    path.write_text("a\nb\n")
    position(path).deserialize(b'{"batches": 1}\n')

    assert caplog.text == ""


def test_the_files_found_last_are_kept_in_mind(tmp_path, monkeypatch):
    monkeypatch.setattr(file_marks, "MOST_FILES", 3)
    for number in range(5):
        (tmp_path / f"{number}.txt").touch()
    with file_marks.files_noted(is_training=True):
        input_files.match_files(f"{tmp_path}/*.txt")

    assert list(file_marks.get_known()) == [f"{tmp_path}/{number}.txt" for number in (2, 3, 4)]
