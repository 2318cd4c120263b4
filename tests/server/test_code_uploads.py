import errno
import hashlib
import io
import os
import tarfile
import time

import pytest

from quintain import errors
from quintain.client.http import connection, transfers
from quintain.master.transfer import model_files
from quintain.records.config import experiment_sections
from quintain.server import code_uploads


@pytest.fixture
def now():
    return [1000.0]


@pytest.fixture
def uploads(tmp_path, now):
    return code_uploads.CodeUploads(tmp_path, lambda: now[0])


def pack(*members):
    """Returns a `.tar` file of (name, content), or of (name, type, target)."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, *what in members:
            info = tarfile.TarInfo(name)
            if isinstance(what[-1], dict):
                info.pax_headers = what.pop()
            if len(what) == 1:
                info.size = len(what[0])
                archive.addfile(info, io.BytesIO(what[0]))
            else:
                info.type, info.linkname = what
                archive.addfile(info)
    return made.getvalue()


def send(uploads, data, size=700):
    name = hashlib.sha256(data).hexdigest()
    for start in range(0, len(data), size):
        for _ in range(2):  # The answer was lost, and the piece comes again.
            with uploads.write(name, start) as piece:
                piece.write(data[start : start + size])
            assert uploads.count(name) == min(start + size, len(data))
    return name


def test_what_comes_in_pieces_is_unpacked_as_often_as_it_is_used(uploads, tmp_path, now):
    data = pack(
        ("sub/here.py", tarfile.SYMTYPE, "../model_def.py"),
        ("model_def.py", b"a" * 5000),
        ("sub/ä b.txt", b""),
    )
    name = send(uploads, data)
    for _ in range(2):
        with uploads.unpacking(name) as directory:
            assert (directory / "sub" / "here.py").read_bytes() == b"a" * 5000
            assert (directory / "sub" / "ä b.txt").read_bytes() == b""
    assert [path.stem for path in tmp_path.rglob("*") if path.is_file()] == [name]
    now[0] += 700
    assert uploads.count(name) == 0
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    "members",
    [
        [("../out", b"a")],
        [("/etc/out", b"a")],
        [("a/../../out", b"a")],
        [("a", b"1"), ("a", b"2")],
        [("a", b"1"), ("a/b", b"2")],
        [("a", tarfile.SYMTYPE, "/tmp"), ("a/b", b"2")],
        [("a", tarfile.SYMTYPE, "b"), ("a", b"2")],
        [("a", tarfile.SYMTYPE, "/tmp"), ("a/b", tarfile.SYMTYPE, "x")],
        [("a/b", tarfile.SYMTYPE, "x"), ("a", tarfile.SYMTYPE, "/tmp")],
        [("a", tarfile.LNKTYPE, "/etc/passwd")],
        [("a", tarfile.CHRTYPE, "")],
        [("a", tarfile.FIFOTYPE, "")],
        [("a" * 300, b"")],
        [("a", b"1", {"mtime": "nan"})],
        [("a", b"1", {"mtime": "inf"})],
        [("a", b"1", {"mtime": "1e300"})],
        [("a", b"1", {"size": "-512"})],
        [("a", b"1", {"path": "a\0b"})],
        [("a/" * 1500 + "b", b"")],
        [("a", tarfile.XHDTYPE, "")] * 1500,
    ],
)
def test_what_leads_elsewhere_is_not_unpacked(uploads, tmp_path, members):
    name = send(uploads, pack(*members))
    with pytest.raises(errors.ConfigError), uploads.unpacking(name):
        pass
    names = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert names == [f"{name}.tar"]


def test_a_sparse_file_is_refused_before_it_is_written(uploads, tmp_path):
    hole = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(2**31)}
    name = send(uploads, pack(("plain", b"1"), ("a", b"1\n0\n1\n".ljust(512, b"\0") + b"x", hole)))
    with pytest.raises(errors.ConfigError, match="holds 'a', which is a sparse file"):
        uploads.unpacking(name).__enter__()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [f"{name}.tar"]


@pytest.mark.parametrize(
    ("limits", "members", "message"),
    [
        (
            {"max_mib": 1},
            [("a", bytes(600_000)), ("b", bytes(600_000))],
            "than 1 MiB .code.max_mib",
        ),
        (
            {"max_files": 3},
            [(f"a{number}", b"") for number in range(4)],
            "than 3 files .* .code.max",
        ),
        ({"max_files": 3}, [("a/b/c/d", b"")], "more than 3 files and directories"),
    ],
)
def test_limits_of_the_config_hold_before_anything_is_written(
    uploads, monkeypatch, limits, members, message
):
    monkeypatch.setattr(code_uploads, "_write", None)
    name = send(uploads, pack(*members), size=2**20)
    with pytest.raises(errors.ConfigError, match=message):
        uploads.unpacking(name, experiment_sections.CodeConfig(**limits)).__enter__()


@pytest.mark.slow
def test_thousands_of_small_files_take_seconds(uploads, tmp_path):
    data = pack(*((f"d{number % 50}/f{number}", b"") for number in range(8000)))
    name = send(uploads, data, size=2**22)
    before = time.monotonic()
    with uploads.unpacking(name) as directory:
        model_files.move_model_dir(directory, tmp_path / "code", experiment_sections.CodeConfig())
    assert time.monotonic() - before < 20
    assert len(list((tmp_path / "code").rglob("f*"))) == 8000


def test_pieces_that_do_not_fit_are_refused(uploads, monkeypatch):
    name = "0" * 64
    for offset in (1, -1, 2**63):
        with pytest.raises(errors.StateError, match=r"0 bytes of .* are there"):
            uploads.write(name, offset).__enter__()
    for other in ("upload-", "../../quintain.db", "A" * 64, "\0"):
        with pytest.raises(errors.ConfigError, match="expected a SHA-256"):
            uploads.write(other, 0).__enter__()
    monkeypatch.setattr(code_uploads, "MAX_BYTES", 5)
    with uploads.write(name, 0) as piece, pytest.raises(errors.ConfigError, match="more than 5"):
        piece.write(b"abcdef")
    with uploads.write(name, 0) as piece:
        piece.write(b"abcde")
    with pytest.raises(errors.ConfigError, match="wait to be used"):
        uploads.write("1" * 64, 0).__enter__()


def test_what_is_not_what_was_named_is_to_be_sent_again(uploads):
    data = pack(("a", b"1"))
    name = hashlib.sha256(data).hexdigest()
    for sent in (data[:-1], data[:-1] + b"x"):
        with uploads.write(name, 0) as piece:
            piece.write(sent)
        with pytest.raises(errors.NotFoundError, match="or not all of it"):
            uploads.unpacking(name).__enter__()
        assert uploads.count(name) == 0
    with pytest.raises(errors.ConfigError, match="no complete archive"):
        uploads.unpacking(send(uploads, b"abc")).__enter__()


def test_what_nobody_uses_goes_after_a_day_of_waiting_whatever_the_date(
    uploads, tmp_path, now, monkeypatch
):
    name = send(uploads, pack(("a", b"1")))
    monkeypatch.setattr(time, "time", lambda: 1e10)  # The clock of the machine was set.
    now[0] += 80_000
    kept = send(uploads, pack(("a", b"2")))
    assert {path.stem for path in tmp_path.rglob("*.tar")} == {name, kept}
    now[0] += 10_000
    new = send(uploads, pack(("a", b"3")))
    assert {path.stem for path in tmp_path.rglob("*.tar")} == {kept, new}


def test_a_full_disk_is_said(uploads, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", refuse)
    with (
        uploads.write("0" * 64, 0) as piece,
        pytest.raises(errors.NoRoomError, match=r"No space left on device. Free some space"),
    ):
        piece.write(b"abc")


def test_code_is_sent_in_pieces_and_only_once(over_http, tmp_path, monkeypatch):
    archive = tmp_path / "code.tar"
    archive.write_bytes(pack(("model_def.py", b"a" * 5000)))
    monkeypatch.setattr(transfers, "PIECE_BYTES", 4096)

    name = over_http.send_code(archive)

    assert over_http.count_upload(name) == {"received": archive.stat().st_size}
    monkeypatch.setattr(connection.Connection, "send_bytes", None)
    assert over_http.send_code(archive) == name
