import os
import stat

from quintain.client.home import master_file
from quintain.records import process_identity


def own_file(**changes):
    return master_file.MasterFile(
        **{
            "url": "http://127.0.0.1:1",
            "token": "t",
            "pid": os.getpid(),
            "mark": process_identity.find_mark(os.getpid()),
            **changes,
        }
    )


def test_what_is_written_is_read_and_only_the_owner_may(tmp_path):
    master_file.write(tmp_path, own_file())
    assert master_file.read(tmp_path) == own_file()
    assert stat.S_IMODE((tmp_path / "master.json").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["master.json"]


def test_a_file_that_is_missing_or_damaged_is_none(tmp_path):
    assert master_file.read(tmp_path) is None
    for text in ("", "{", "[]", "{}", '{"url": "u", "token": "t", "pid": "x", "mark": "1"}'):
        (tmp_path / "master.json").write_text(text)
        assert master_file.read(tmp_path) is None


def test_a_file_is_stale_if_its_process_is_another_one_now():
    assert own_file().is_alive()
    assert not own_file(mark="another boot 1").is_alive()
    assert not own_file(pid=2**22 + 1).is_alive()
