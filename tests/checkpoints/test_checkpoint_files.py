"""Steps of checkpoints, and their removal."""

import pytest
import tensorflow as tf

from quintain.checkpoints import checkpoint_files


def test_step_is_read_from_a_checkpoint(tmp_path):
    step = tf.Variable(17, dtype=tf.int64)
    path = tf.train.Checkpoint(global_step=step).save(str(tmp_path / "ckpt"))

    assert checkpoint_files.read_global_step_from_checkpoint(path) == 17


def test_checkpoint_without_a_step_is_an_error(tmp_path):
    path = tf.train.Checkpoint(v=tf.Variable(1.0)).save(str(tmp_path / "ckpt"))

    with pytest.raises(ValueError, match="global_step not found"):
        checkpoint_files.read_global_step_from_checkpoint(path)


def test_checkpoints_and_their_list_are_removed_and_nothing_else(tmp_path):
    tf.train.Checkpoint(v=tf.Variable(1.0)).save(str(tmp_path / "ckpt"))
    (tmp_path / "ckpt-2.parts").mkdir()
    (tmp_path / "ckpt-notes.txt").write_text("mine")
    (tmp_path / "params.yaml").write_text("x")

    checkpoint_files.remove_ckpts(str(tmp_path))

    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"ckpt-2.parts", "ckpt-notes.txt", "params.yaml"}


def test_leftovers_of_a_killed_writer_are_removed(tmp_path):
    (tmp_path / "ckpt-7.incomplete").mkdir()
    (tmp_path / "ckpt-7.incomplete" / "ckpt-7.index").write_text("half")
    (tmp_path / "evaluations.jsonl.incomplete").write_text("half")
    (tmp_path / "mine.incomplete").write_text("a user's")
    (tmp_path / "ckpt-best.incomplete").mkdir()

    checkpoint_files.remove_incomplete(str(tmp_path), ["evaluations.jsonl"])

    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"mine.incomplete", "ckpt-best.incomplete"}
