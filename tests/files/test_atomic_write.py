import os
import stat

import pytest

from quintain.files import atomic_write, disk_errors


def test_replaces_the_content_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "a [1] ü?.json"
    atomic_write.write_atomically(path, "old")

    atomic_write.write_atomically(path, '{"new": "ü"}')

    assert path.read_bytes() == '{"new": "ü"}'.encode()
    assert os.listdir(tmp_path) == [path.name]


def test_keeps_the_former_content_if_the_new_one_can_not_be_written(tmp_path, monkeypatch):
    path = tmp_path / "state"
    atomic_write.write_atomically(path, b"old")

    def fail(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left") as caught:
        atomic_write.write_atomically(path, b"new")
    assert disk_errors.explain(caught.value).startswith(f"{path}: No space left on device. Free")

    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["state"]


def test_a_scratch_file_of_a_killed_process_does_not_lend_its_permissions(tmp_path):
    path = tmp_path / "secret"
    scratch = tmp_path / f"secret{atomic_write.SCRATCH_SUFFIX}"
    scratch.write_text("half")
    scratch.chmod(0o644)

    atomic_write.write_atomically(path, "whole", mode=0o600)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == "whole"
