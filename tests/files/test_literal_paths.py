"""TensorFlow's readers get paths that it can't take for patterns."""

import os
import subprocess
import sys

import pytest
import tensorflow as tf

from quintain import errors
from quintain.files import literal_paths

NAMES = ["lr[0.1]", "a [1] ü", "x\\y", "st*r", "wh?t", "{a,b}"]


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_in_any_directory_is_read(tmp_path, name):
    path = tf.train.Checkpoint(value=tf.Variable(3.0)).write(str(tmp_path / name / "ckpt-1"))
    value = tf.Variable(0.0)

    tf.train.Checkpoint(value=value).read(literal_paths.checkpoint(path)).assert_consumed()

    assert float(value) == 3.0


def test_the_files_of_a_directory_that_the_name_matches_are_not_read(tmp_path):
    tf.train.Checkpoint(value=tf.Variable(1.0)).write(str(tmp_path / "x1" / "ckpt-1"))

    with pytest.raises(tf.errors.NotFoundError):
        tf.train.load_checkpoint(literal_paths.checkpoint(tmp_path / "x[1]" / "ckpt-1"))


def test_a_saved_model_in_any_directory_is_loaded(tmp_path):
    module = tf.Module()
    module.value = tf.Variable(3.0)
    tf.saved_model.save(module, str(tmp_path / "a [1] ü"))

    loaded = tf.saved_model.load(literal_paths.directory(tmp_path / "a [1] ü"))

    assert float(loaded.value) == 3.0


def test_ordinary_paths_stay_as_they_are():
    assert literal_paths.checkpoint("runs/lr0.1/ckpt-1") == "runs/lr0.1/ckpt-1"
    assert literal_paths.directory("gs://bucket/run") == "gs://bucket/run"


@pytest.mark.parametrize("path", ["runs/best[1]-3", "gs://bucket/run[1]/ckpt-1"])
def test_what_cannot_be_read_as_it_is_called_is_an_error(path):
    with pytest.raises(errors.CheckpointError, match="for a pattern"):
        literal_paths.checkpoint(path)


@pytest.mark.slow
def test_links_go_with_the_process_and_not_with_its_forks(tmp_path):
    code = (
        "import os, sys\n"
        "from quintain.files import literal_paths\n"
        "path = literal_paths.directory('a[1]')\n"
        "if os.fork() == 0:\n"
        "    sys.exit()\n"
        "os.wait()\n"
        "print(os.path.islink(path))\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "True\n"
    assert [name for name in os.listdir(tmp_path) if name.startswith("quintain-")] == []
