import errno

import pytest

from quintain import errors
from quintain.files import disk_errors


@pytest.mark.parametrize("content", [b"", b'{"a": 1', b"\x00\x00\x00", b"\xff", b"[" * 100_000])
def test_names_the_file_that_is_damaged(tmp_path, content):
    path = tmp_path / "results.json"
    path.write_bytes(content)

    with pytest.raises(errors.DamagedFileError, match=r"results\.json"):
        disk_errors.read_json(path)


def test_a_copy_for_which_there_is_no_room_names_its_target():
    full = OSError(errno.ENOSPC, "No space left on device", "source", None, "target")
    assert disk_errors.explain(full).startswith("target: No space left on device. Free some")
    denied = OSError(errno.EACCES, "Permission denied", "source", None, "target")
    assert disk_errors.explain(denied).startswith("source: Permission denied.")


def test_full_disk_of_a_file_that_nobody_names_is_looked_for(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    usage = disk_errors.shutil.disk_usage("/")
    monkeypatch.setattr(disk_errors.shutil, "disk_usage", lambda _: usage._replace(free=0))

    said = disk_errors.explain(OSError(errno.ENOSPC, "No space left on device"))

    assert said.startswith(f"{tmp_path}")
    assert said.endswith(": No space left on device. Free some space, or choose another directory.")
