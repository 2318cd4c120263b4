import errno
import os
import stat

import pytest

from quintain import errors
from quintain.files import durable_files


def test_replaces_the_content_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "a [1] ü?.json"
    durable_files.replace(path, "old")

    durable_files.replace(path, '{"new": "ü"}')

    assert path.read_bytes() == '{"new": "ü"}'.encode()
    assert os.listdir(tmp_path) == [path.name]


def test_keeps_the_former_content_if_the_new_one_can_not_be_written(tmp_path, monkeypatch):
    path = tmp_path / "state"
    durable_files.replace(path, b"old")

    def fail(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left") as caught:
        durable_files.replace(path, b"new")
    assert durable_files.explain(caught.value).startswith(f"{path}: No space left on device. Free")

    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["state"]


def test_a_scratch_file_of_a_killed_process_does_not_lend_its_permissions(tmp_path):
    path = tmp_path / "secret"
    scratch = tmp_path / f"secret{durable_files.SCRATCH_SUFFIX}"
    scratch.write_text("half")
    scratch.chmod(0o644)

    durable_files.replace(path, "whole", mode=0o600)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == "whole"


@pytest.mark.parametrize("content", [b"", b'{"a": 1', b"\x00\x00\x00", b"\xff", b"[" * 100_000])
def test_names_the_file_that_is_damaged(tmp_path, content):
    path = tmp_path / "results.json"
    path.write_bytes(content)

    with pytest.raises(errors.DamagedFileError, match=r"results\.json"):
        durable_files.read_json(path)


def test_a_copy_for_which_there_is_no_room_names_its_target():
    full = OSError(errno.ENOSPC, "No space left on device", "source", None, "target")
    assert durable_files.explain(full).startswith("target: No space left on device. Free some")
    denied = OSError(errno.EACCES, "Permission denied", "source", None, "target")
    assert durable_files.explain(denied).startswith("source: Permission denied.")


def test_full_disk_of_a_file_that_nobody_names_is_looked_for(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    usage = durable_files.shutil.disk_usage("/")
    monkeypatch.setattr(durable_files.shutil, "disk_usage", lambda _: usage._replace(free=0))

    said = durable_files.explain(OSError(errno.ENOSPC, "No space left on device"))

    assert said.startswith(f"{tmp_path}")
    assert said.endswith(": No space left on device. Free some space, or choose another directory.")
