"""What is deleted in storages that other homes may use as well."""

import json
import uuid

import pytest

from quintain import errors
from quintain.master.cleanup import deletions, remote_deletions
from quintain.records.rows import deletion
from quintain.storage import storages

pytest.importorskip("fsspec")

Kind = deletion.DeletionKind
UUID = "0b1c2d3e-0000-0000-0000-000000000001"


@pytest.fixture
def storage():
    url = f"memory://quintain-{uuid.uuid4().hex}/runs"
    return storages.open_address(json.dumps({"url": url, "options": {}}))


@pytest.fixture
def made(store, tmp_path):
    made = deletions.Deletions(store, tmp_path / "home")
    made.home_id = "mine"
    return made


def save(storage, name=UUID, **fields):
    content = {"format": 1, "kind": "K", "total_batches": 5, "experiment_id": 1, "trial_id": 2}
    content |= {"seed": 3, "hparams": {}, "home_id": "mine", **fields}
    storage._write(name, "weights", b"w")
    storage._write(name, "metadata.json", json.dumps(content).encode())


def run(made, store, storage, kind, name):
    """Returns the notes that are left."""
    with store.transaction() as session:
        session.add_deletions(made.note(kind, storage.address, [name], 1))
    made.run()
    with store.reading() as session:
        return [each.name for each in session.list_deletions()]


@pytest.mark.parametrize("kind", [Kind.CHECKPOINT, Kind.ORPHAN])
def test_own_checkpoints_go_and_others_stay(made, store, storage, kind):
    other = UUID.replace("1", "2")
    save(storage)
    save(storage, other)

    assert run(made, store, storage, kind, UUID) == []
    assert [each.name for each in storage.list()] == [other]
    assert run(made, store, storage, kind, UUID) == []


@pytest.mark.parametrize(
    ("kind", "name", "fields"),
    [
        (Kind.CHECKPOINT, UUID, {"home_id": "theirs"}),
        (Kind.CHECKPOINT, UUID, {"home_id": ""}),
        (Kind.CHECKPOINT, UUID, {"experiment_id": 2}),
        (Kind.CHECKPOINT, UUID, {"format": "?"}),
        (Kind.ORPHAN, UUID, {"home_id": "theirs"}),
        (Kind.CHECKPOINT, "data", {}),
        (Kind.EXPERIMENT, UUID, {}),
    ],
)
def test_what_this_home_did_not_write_stays(made, store, storage, kind, name, fields, caplog):
    save(storage, name, **fields)

    assert run(made, store, storage, kind, name) == [name]
    assert len(storage.find_files(name)) == 2
    assert "is not deleted" in caplog.text


def test_what_has_no_manifest_stays(made, store, storage):
    storage._write(UUID, "weights", b"w")

    assert run(made, store, storage, Kind.CHECKPOINT, UUID) == [UUID]
    assert storage.find_files(UUID) == {"weights": 1}


def test_rest_of_a_killed_process_goes(made, store, storage):
    storage._write(UUID, "weights", b"w")
    storage._write(".t1-a.tmp", UUID, b'{"home_id": "mine", "experiment_id": 1}')
    storage._write(".t1-b.tmp", UUID, b'{"home_id": "theirs", "experiment_id": 1}')

    assert run(made, store, storage, Kind.UNFINISHED, ".t1-b.tmp") == []
    assert storage.find_files(UUID) == {"weights": 1}
    assert run(made, store, storage, Kind.UNFINISHED, ".t1-a.tmp") == []
    assert [each.name for each in storage.list()] == [".t1-b.tmp"]


def test_storage_that_does_not_answer_is_asked_again(made, store, storage, monkeypatch, caplog):
    save(storage)
    delete = remote_deletions.delete

    def fail(noted, home_id):
        raise errors.CheckpointError("it does not answer")

    monkeypatch.setattr(remote_deletions, "delete", fail)
    assert run(made, store, storage, Kind.CHECKPOINT, UUID) == [UUID]
    assert made.has_postponed
    made.run()
    assert caplog.text.count("it does not answer") == 1

    monkeypatch.setattr(remote_deletions, "delete", delete)
    made.run()

    assert not made.has_postponed
    assert storage.list() == []
