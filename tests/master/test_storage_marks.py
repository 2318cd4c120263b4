"""An empty directory in which checkpoints were is the place of a lost disk, and says nothing."""

import errno
import os
import pathlib
import shutil

import pytest

from quintain import errors
from quintain.records import checkpoint_manifest
from quintain.records.rows import states
from quintain.storage import checkpoint_storage, directory_storage

UUID = "0b1c2d3e-0000-0000-0000-000000000001"


@pytest.fixture
def disk(tmp_path):
    return tmp_path / "mounted" / "disk"


@pytest.fixture
def master(make_master):
    return make_master(num_slots=1)


@pytest.fixture
def begin(master, config_text, disk, make_workers, fake_launcher):
    """Returns a function that creates an experiment and starts its process."""

    def begin():
        config = config_text(
            {"name": "single", "max_length": 10}, checkpoint_storage={"host_path": str(disk)}
        )
        master.commands.create_experiment(config, None)
        master.tick()
        workers = make_workers(master)
        (launch_id,) = fake_launcher.alive
        workers.step(launch_id)
        return workers

    return begin


def lose(disk):
    """Leaves what is there where a disk is not mounted."""
    shutil.rmtree(disk)
    disk.mkdir()


def open_storage(disk):
    return directory_storage.DirectoryStorage(
        disk, checkpoint_storage.Writer("home", 1, "t1-a", is_expected=True)
    )


def test_the_first_process_finds_its_directory_marked(begin, disk):
    begin()

    assert checkpoint_manifest.is_storage(disk)
    directory = open_storage(disk).stage(UUID)
    (directory / "metadata.json").write_text("{}")
    open_storage(disk).commit(directory, UUID)
    assert (disk / UUID).is_dir()


@pytest.mark.parametrize("remains", ["an empty directory", "nothing"])
def test_what_takes_the_place_of_a_lost_disk_is_no_storage(begin, disk, remains):
    begin().run()
    lose(disk)
    if remains == "nothing":
        disk.rmdir()
    begin()

    assert not disk.exists() or list(disk.iterdir()) == []
    storage = open_storage(disk)
    with pytest.raises(errors.DiskAwayError, match="Is its disk mounted"):
        storage.fetch(UUID, disk)
    with pytest.raises(errors.DiskAwayError, match="Is its disk mounted"):
        storage.stage(UUID)


def test_a_checkpoint_that_is_missing_on_the_disk_is_damaged(begin, disk):
    begin()

    with pytest.raises(errors.DamagedCheckpointError, match="its directory is not there"):
        open_storage(disk).fetch(UUID, disk)


def test_a_storage_of_a_former_version_has_checkpoints_and_no_mark(disk):
    (disk / UUID).mkdir(parents=True)
    (disk / UUID / "metadata.json").write_text("{}")

    assert checkpoint_manifest.is_storage(disk)
    assert open_storage(disk).stage("b").is_dir()


def test_a_directory_that_can_not_be_marked_now_ends_no_experiment(
    begin, disk, master, monkeypatch
):
    def fail(path, *_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(pathlib.Path, "touch", fail)
        with pytest.raises(errors.NoRoomError, match="no checkpoints can be kept there"):
            begin()

    assert master.status().experiments[0].state is states.ExperimentState.ACTIVE


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS, errno.ESTALE])
def test_a_broken_disk_is_waited_for_as_a_full_one(disk, monkeypatch, code):
    def fail(path, *_, **__):
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr(pathlib.Path, "mkdir", fail)
    storage = directory_storage.DirectoryStorage(disk)

    with pytest.raises(errors.DiskAwayError):
        storage.stage(UUID)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (errno.EACCES, errors.CheckpointError),
        (errno.EIO, errors.DiskAwayError),
        (errno.ENOENT, errors.DamagedCheckpointError),
    ],
)
def test_a_checkpoint_that_can_not_be_read_now_is_not_damaged(disk, monkeypatch, code, expected):
    (disk / UUID).mkdir(parents=True)

    def fail(path):
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr(pathlib.Path, "read_bytes", fail)
    with pytest.raises(errors.CheckpointError) as caught:
        open_storage(disk).fetch(UUID, disk)

    assert type(caught.value) is expected
