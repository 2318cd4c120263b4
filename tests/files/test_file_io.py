import errno
import os
import uuid

import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.files import file_io, file_paths, literal_paths, whole_files


@pytest.fixture(
    params=["ram://{name}", "ram:///{name}", "memory://{name}", "local://{tmp}", "{tmp}"]
)
def place(request, tmp_path):
    """Returns an empty directory of each kind of file system."""
    path = request.param.format(name=f"test-{uuid.uuid4().hex}", tmp=tmp_path)
    file_io.makedirs(path)
    yield path
    file_io.rmtree(path)


@pytest.fixture
def in_memory():
    path = f"memory://test-{uuid.uuid4().hex}"
    file_io.makedirs(path)
    yield path
    file_io.rmtree(path)


def test_a_file_is_written_and_read_alike_everywhere(place):
    path = file_paths.join(place, "a", "x.txt")
    file_io.makedirs(file_paths.dirname(path))
    with file_io.open(path, "w") as file:
        file.write("ü\r\nb")
    with file_io.open(path, "a") as file:
        file.write("\nc")

    with file_io.open(path) as file:
        lines = list(file)
    with file_io.open(path, "rb") as file:
        file.seek(2)
        middle = file.read(2)
    facts = (file_io.size(path), file_io.isfile(path), file_io.isdir(place), file_io.exists(place))

    assert (lines, middle) == (["ü\r\n", "b\n", "c"], b"\r\n")
    assert facts == (7, True, True, True)


def test_directories_hold_just_what_was_put_there(place):
    for name in ("as/x", "assets/x", "assets.extra/y.pb"):
        whole_files.write(file_paths.join(place, name), "1")

    inside = {
        name: sorted(file_io.listdir(file_paths.join(place, name))) for name in ("as", "assets")
    }
    found = file_io.glob(file_paths.join(place, "*", "x"))

    assert sorted(file_io.listdir(place)) == ["as", "assets", "assets.extra"]
    assert inside == {"as": ["x"], "assets": ["x"]}
    assert found == [file_paths.join(place, "as/x"), file_paths.join(place, "assets/x")]
    assert not file_io.exists(file_paths.join(place, "asse"))
    assert not file_io.isdir(file_paths.join(place, "asse"))


def test_a_directory_is_moved_with_all_below_it(place):
    whole_files.write(file_paths.join(place, "a/b/x"), "1")
    whole_files.write(file_paths.join(place, "a/y"), "22")

    file_io.move_directory(file_paths.join(place, "a"), file_paths.join(place, "c"))

    assert file_io.listdir(place) == ["c"]
    assert file_io.read_text(file_paths.join(place, "c/b/x")) == "1"
    assert file_io.total_size(place) == 3


def test_a_file_is_replaced_whole_and_nothing_is_left_beside_it(place):
    path = file_paths.join(place, "state.json")
    whole_files.write(path, "{}", has_rivals=True)
    whole_files.write(path, '{"a": 1}')

    assert whole_files.read_json(path) == {"a": 1}
    assert file_io.listdir(place) == ["state.json"]


def test_what_is_missing_is_named_as_it_was_given(place):
    path = file_paths.join(place, "none", "x")

    with pytest.raises(FileNotFoundError) as raised:
        file_io.open(path)

    assert (raised.value.filename, raised.value.strerror) == (path, "No such file or directory")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("foo://x", "there is no file system for foo://, neither in TensorFlow nor in fsspec"),
        ("s4://x", "nor in fsspec; did you mean s3://"),
        ("abfs://b/x", r"the package for abfs:// is not installed \(Install adlfs"),
    ],
)
def test_a_scheme_that_nobody_knows_is_told_by_everything(path, message, block_packages):
    block_packages("adlfs")
    with pytest.raises(OSError, match=message) as raised:
        file_io.exists(path)
    with pytest.raises(errors.ConfigError, match=f"model_dir: got '{path}', but .*{message}"):
        file_io.check_writable(path, "model_dir")

    assert raised.value.errno == errno.EPROTONOSUPPORT


def test_tensorflow_does_not_write_where_only_fsspec_does():
    with pytest.raises(
        errors.ConfigError, match=r"does not know memory://\. Give a local directory"
    ):
        file_io.check_writable("memory://x", "model_dir")


def test_a_copy_for_tensorflow_has_one_path_and_the_newest_content(in_memory):
    path = f"{in_memory}/x.txt"
    whole_files.write(path, "old\n")
    first = file_io.fetch(path)
    whole_files.write(path, "new one\n")

    second = file_io.fetch(path)

    assert first == second
    assert list(tf.data.TextLineDataset(second).as_numpy_iterator()) == [b"new one"]


def test_a_checkpoint_is_read_where_only_fsspec_gets_to(in_memory, tmp_path):
    source = tf.train.Checkpoint(value=tf.Variable([1.0, 2.0]))
    source.write(f"{tmp_path}/ckpt-10")
    for file in tmp_path.iterdir():
        whole_files.write(f"{in_memory}/{file.name}", file.read_bytes())
    whole_files.write(f"{in_memory}/ckpt-1.index", b"another")

    reader = literal_paths.read(f"{in_memory}/ckpt-10")

    assert np.array_equal(reader.get_tensor("value/.ATTRIBUTES/VARIABLE_VALUE"), [1.0, 2.0])
    with pytest.raises(errors.CheckpointError, match="No such file or directory"):
        literal_paths.read(f"{in_memory}/ckpt-2")


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.ESTALE])
@pytest.mark.parametrize("look", [file_io.exists, file_io.isdir])
def test_a_file_that_can_not_be_looked_at_is_not_taken_for_missing(monkeypatch, look, code):
    def fail(path):
        raise OSError(code, os.strerror(code), path)

    monkeypatch.setattr("quintain.files.file_systems.os.stat", fail)
    with pytest.raises(OSError, match=os.strerror(code)):
        look("run/params.yaml")


@pytest.mark.parametrize("path", ["not/there", "a\0b", "x" * 300, __file__ + "/below"])
def test_what_is_missing_is_missing(path):
    assert not file_io.exists(path)
    assert not file_io.isdir(path)
