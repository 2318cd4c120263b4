import json
import stat

import pytest

from quintain.client.home import home as home_lib
from quintain.client.notebook import run_notes


@pytest.fixture
def home(tmp_path):
    return home_lib.find_home(str(tmp_path / "home"))


def test_runs_are_remembered_once_the_latest_first(home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b", "a", "gs://bucket/c"):
        run_notes.note(home, name, "translation/local")

    assert run_notes.list_paths(home) == [tmp_path / "a", tmp_path / "b"]
    mode = (home.path / run_notes.FILE_NAME).stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_damaged_notes_are_passed_over(home):
    home.create()
    lines = [b"{", b"[]", b'{"path": 3}', b'{"path": "relative"}', b'{"path": "/a\\u0000"}',
             b"\xff", b'{"path": "/good"}', b'{"path": "/torn']  # fmt: skip
    (home.path / run_notes.FILE_NAME).write_bytes(b"\n".join(lines))

    assert [str(path) for path in run_notes.list_paths(home)] == ["/good"]


def test_notes_do_not_grow_without_end(home, monkeypatch):
    monkeypatch.setattr(run_notes, "_MAX_BYTES", 2000)
    monkeypatch.setattr(run_notes, "MAX_RUNS", 5)
    for number in range(100):
        run_notes.note(home, f"/runs/{number}", "x" * 50)

    path = home.path / run_notes.FILE_NAME
    assert path.stat().st_size < 2500
    assert [str(each) for each in run_notes.list_paths(home)][:2] == ["/runs/99", "/runs/98"]
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_a_home_that_cannot_be_used_stops_nobody(tmp_path):
    (tmp_path / "file").write_text("")
    home = home_lib.find_home(str(tmp_path / "file" / "home"))

    run_notes.note(home, "/runs/a", "translation/local")

    assert run_notes.list_paths(home) == []
