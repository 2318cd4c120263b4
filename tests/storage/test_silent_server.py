"""Against a server that takes every connection, and neither reads nor answers."""

import contextlib
import socket
import threading

import pytest

from quintain import errors
from quintain.storage import fsspec_storage, run_mirror

NAME = "0b1c2d3e-0000-4000-8000-000000000001"
NUM_BYTES = 8_000_000
"""More than connections hold: who sends it waits without end."""


@pytest.fixture
def silent(monkeypatch):
    pytest.importorskip("s3fs")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-to-be-seen")
    before = set(threading.enumerate())
    listener = socket.create_server(("127.0.0.1", 0))
    ends = []

    def accept():
        with contextlib.suppress(OSError):
            while True:
                ends.append(listener.accept()[0])

    thread = threading.Thread(target=accept)
    thread.start()
    yield {
        "endpoint_url": f"http://127.0.0.1:{listener.getsockname()[1]}",
        "config_kwargs": {"read_timeout": 1, "connect_timeout": 1},
    }
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()
    for end in ends:
        end.close()
    for each in set(threading.enumerate()) - before:
        if each.name == "quintain-storage":
            each.join(60)


@pytest.fixture
def storage(silent, tmp_path):
    # Of what it calls, nothing is repeated.
    return fsspec_storage.FsspecStorage(
        "s3://runs/a", silent, scratch=tmp_path / "scratch", patience_secs=0.0, answer_secs=0.2
    )


@pytest.mark.parametrize(
    ("call", "doing"),
    [
        (lambda storage, _: storage.list(), "listing"),
        (lambda storage, _: storage.read(NAME, "metadata.json"), "reading"),
        (lambda storage, path: storage.fetch(NAME, path / "copy"), "listing"),
        (lambda storage, _: storage.delete(NAME), "listing"),
        (lambda storage, _: storage.delete_unfinished(".t.tmp", "home"), "listing"),
    ],
)
def test_every_call_ends_and_names_the_store(storage, tmp_path, call, doing):
    with pytest.raises(errors.CheckpointError) as caught:
        call(storage, tmp_path)

    assert str(caught.value).startswith("s3://runs/a/")
    assert f"{doing}: there was no answer within 0.2 s" in str(caught.value)


def test_upload_ends(storage, given, monkeypatch):
    staged = storage.stage(NAME)
    given.write(staged)
    (staged / "weights").write_bytes(bytes(NUM_BYTES))
    # It stops to answer after the note.
    monkeypatch.setattr(storage, "_write", lambda *content: None)
    monkeypatch.setattr(fsspec_storage.remote_calls, "SLOWEST_BYTES", 10**12)

    with pytest.raises(errors.CheckpointError, match=f"{NAME}: writing: there was no answer"):
        storage.commit(staged, NAME)

    assert not staged.exists()


def test_run_that_is_uploaded_ends(silent, tmp_path):
    mirror = run_mirror.RunMirror("s3://runs/first", patience_secs=0.0, options=silent)
    mirror.calls.answer_secs = 0.2
    with pytest.raises(errors.CheckpointError, match="s3://runs/first: reading: there was no"):
        mirror.pull(tmp_path)
