import errno
import json
from unittest import mock

import fsspec
import pytest

from quintain import errors
from quintain.records import checkpoint_manifest
from quintain.storage import fsspec_storage, remote_systems, retries

NAME = "0b1c2d3e-0000-4000-8000-000000000001"


@pytest.fixture
def files(storage):
    return storage._system


def path_of(storage, *names):
    return storage._path(*names)


def test_manifest_is_written_last(storage, files, monkeypatch, given):
    written = []
    put, pipe = files.put_file, files.pipe_file
    monkeypatch.setattr(files, "put_file", lambda a, b: (written.append(b), put(a, b)))
    monkeypatch.setattr(files, "pipe_file", lambda a, b: (written.append(a), pipe(a, b)))

    given.save(storage, NAME)

    assert written[0].endswith(f".t7-0123.tmp/{NAME}")
    assert written[-1].endswith(f"{NAME}/{checkpoint_manifest.FILE_NAME}")


@pytest.mark.parametrize(
    ("change", "damage"),
    [
        (lambda files, path: files.rm_file(f"{path}/ä.json"), "ä.json is not there"),
        (lambda files, path: files.pipe_file(f"{path}/ä.json", b"[]"), "not what was written"),
        (lambda files, path: files.pipe_file(f"{path}/ä.json", b"{}}"), "has 3 bytes, expected 2"),
        (lambda files, path: files.pipe_file(f"{path}/metadata.json", b"{"), "can't be read"),
        (lambda files, path: files.rm_file(f"{path}/metadata.json"), "metadata.json is not there"),
    ],
)
def test_damage_is_found_before_anything_is_used(storage, files, tmp_path, change, damage, given):
    given.save(storage, NAME)
    change(files, path_of(storage, NAME))

    with pytest.raises(errors.DamagedCheckpointError) as caught:
        storage.fetch(NAME, tmp_path / "copy")

    assert damage in caught.value.damage
    assert not (tmp_path / "copy").exists()


def test_a_trial_outlasts_refused_credentials_and_nobody_else_does(
    url, tmp_path, monkeypatch, given, replace_sleep
):
    opened, told, open_system = [], [], remote_systems.open_system

    def open_refusing(*arguments):
        system, root = open_system(*arguments)
        opened.append(system)
        refused = mock.Mock(side_effect=PermissionError("withdrawn"))
        return (
            (mock.Mock(wraps=system, put_file=refused), root) if len(opened) < 4 else (system, root)
        )

    monkeypatch.setattr(remote_systems, "open_system", open_refusing)
    replace_sleep(retries, lambda secs: None)
    trials = fsspec_storage.FsspecStorage(url, {}, given.WRITER, scratch=tmp_path / "scratch")
    with retries.wait_listener(told.append):
        given.save(trials, NAME)

    # New credentials are found by a new client only.
    assert len(opened) >= 4
    assert "withdrawn" in told[0]
    assert told[-1] == ""
    assert trials.find_damage(NAME, {}) is None
    opened.clear()
    users = fsspec_storage.FsspecStorage(url, {}, scratch=tmp_path / "scratch")
    with pytest.raises(errors.CheckpointError, match=r"withdrawn\. Check the credentials"):
        given.save(users, NAME)


def test_manifest_can_not_lead_out_of_the_directory(storage, tmp_path, given):
    given.save(storage, NAME)
    files = storage._system
    content = json.loads(files.cat_file(path_of(storage, NAME, "metadata.json")))
    content["sizes"]["../escaped"] = 2
    files.pipe_file(path_of(storage, NAME, "metadata.json"), json.dumps(content).encode())
    files.pipe_file(path_of(storage, "escaped"), b"{}")

    with pytest.raises(errors.DamagedCheckpointError):
        storage.fetch(NAME, tmp_path / "copy")

    assert not (tmp_path / "escaped").exists()


def test_copy_that_was_torn_on_its_way_is_made_again(storage, files, tmp_path, monkeypatch, given):
    given.save(storage, NAME)
    get, torn = files.get_file, []

    def tear(source, target):
        get(source, target)
        if not torn and source.endswith("ä.json"):
            torn.append(source)
            open(target, "wb").close()

    monkeypatch.setattr(files, "get_file", tear)

    found = storage.fetch(NAME, tmp_path / "copy")

    assert torn
    assert (found / "ä.json").read_text() == "{}"


def test_calls_that_fail_for_a_while_are_repeated(
    storage, files, monkeypatch, caplog, given, replace_sleep
):
    put, pauses, failures = files.put_file, [], [TimeoutError("slow down"), OSError(16, "busy")]
    replace_sleep(retries, pauses.append)

    def fail(source, target):
        if failures:
            raise failures.pop()
        put(source, target)

    monkeypatch.setattr(files, "put_file", fail)

    given.save(storage, NAME)

    assert storage.find_damage(NAME, {}) is None
    assert len(pauses) == 2
    assert "is tried again: busy" in caplog.text


def test_upload_that_fails_leaves_nothing(storage, files, monkeypatch, given):
    def fail(source, target):
        raise OSError(errno.ENAMETOOLONG, "too long")

    monkeypatch.setattr(files, "put_file", fail)

    with pytest.raises(errors.CheckpointError, match=f"{NAME}: writing: too long"):
        given.save(storage, NAME)

    assert storage.list() == []


def test_rest_of_a_killed_process_is_deleted_by_its_note(storage, tmp_path, given):
    staged = storage.stage(NAME)
    given.write(staged)
    storage._upload(staged, NAME)
    kept = given.save(fsspec_storage.FsspecStorage(storage.place, {}, scratch=tmp_path / "s"))

    storage.delete_unfinished(".t7-0123.tmp", "another home")
    assert len(storage.list()) == 3
    storage.delete_unfinished(".t7-0123.tmp", given.HOME)

    assert [each.name for each in storage.list()] == [kept]


def test_complete_checkpoint_survives_its_note(storage, given):
    given.save(storage, NAME)
    note = json.dumps({"home_id": given.HOME}).encode()
    storage._system.pipe_file(path_of(storage, ".t7-0123.tmp", NAME), note)

    storage.delete_unfinished(".t7-0123.tmp", given.HOME)

    assert [each.name for each in storage.list()] == [NAME]


def test_manifest_goes_last_when_it_is_deleted(storage, files, monkeypatch, given):
    given.save(storage, NAME)
    remove, removed = files.rm_file, []
    monkeypatch.setattr(files, "rm_file", lambda path: (removed.append(path), remove(path)))

    storage.delete(NAME)

    assert removed[-1].endswith("metadata.json")
    assert len(removed) == 3


@pytest.mark.parametrize(
    ("url", "package", "extra"),
    [
        ("s3://bucket", "s3fs", "s3"),
        ("gs://bucket", "gcsfs", "gs"),
        ("gcs://bucket", "gcsfs", "gs"),
        ("abfs://container", "adlfs", "azure"),
        ("az://container", "adlfs", "azure"),
        ("hdfs://host/runs", "pyarrow", "remote"),
    ],
)
def test_package_that_is_missing_is_named(block_packages, url, package, extra):
    block_packages(package)
    storage = fsspec_storage.FsspecStorage(f"{url}/runs", {})

    with pytest.raises(errors.ConfigError, match=rf'pip install "quintain\[{extra}\]"'):
        storage.check()
    with pytest.raises(errors.CheckpointError, match=rf'pip install "quintain\[{extra}\]"'):
        storage.list()


@pytest.mark.parametrize("url", ["s3://", "s3:///runs", "gs:///", "az:///runs/a"])
def test_address_without_a_bucket_is_refused(url):
    with pytest.raises(errors.ConfigError, match="names no bucket"):
        fsspec_storage.FsspecStorage(url, {}).check()


def test_unknown_scheme_is_named():
    with pytest.raises(errors.ConfigError, match=r"nowhere://a: can't be opened: .*nowhere"):
        fsspec_storage.FsspecStorage("nowhere://a", {}).check()


def test_check_leaves_nothing(storage):
    storage.check()

    assert fsspec.filesystem("memory").find(storage._calls.root) == []
