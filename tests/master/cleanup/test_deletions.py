import json
import pathlib
import time

import pytest

from quintain.master.cleanup import deletions
from quintain.records.rows import deletion
from quintain.storage import directory_storage

Kind = deletion.DeletionKind
UUID = "0b1c2d3e-0000-0000-0000-000000000001"


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    (home / "home.json").write_text(json.dumps({"home_id": "mine"}))
    return home


@pytest.fixture
def made(store, home):
    made = deletions.Deletions(store, home)
    made.home_id = "mine"
    return made


def save(root, name=UUID, **fields):
    directory = root / name
    directory.mkdir(parents=True)
    content = {"format": 1, "kind": "K", "total_batches": 5, "experiment_id": 1, "trial_id": 2}
    content |= {"seed": 3, "hparams": {}, "home_id": "mine", **fields}
    (directory / "metadata.json").write_text(json.dumps(content))
    (directory / "weights").write_text("w")
    return directory


def run(made, store, *noted):
    with store.transaction() as session:
        for kind, root, name in noted:
            session.add_deletions(made.note(kind, root, [name], 1))
    made.run()
    with store.reading() as session:
        return [each.name for each in session.list_deletions()]


def test_what_was_noted_goes_and_the_note_with_it(made, store, home, tmp_path):
    inside, outside = save(home / "checkpoints"), save(tmp_path / "else where [1]")
    scratch = home / "scratch" / "1" / "t2-a"
    code = home / "experiments" / "1"
    for directory in (scratch, code):
        directory.mkdir(parents=True)
    (code / "link").symlink_to(tmp_path)
    left = run(
        made,
        store,
        (Kind.CHECKPOINT, inside.parent, UUID),
        (Kind.CHECKPOINT, outside.parent, UUID),
        (Kind.SCRATCH, scratch.parent, "t2-a"),
        (Kind.EXPERIMENT, code.parent, "1"),
        (Kind.CHECKPOINT, home / "checkpoints", "not-there"),
    )
    assert left == []
    assert not any(path.exists() for path in (inside, outside, scratch, code))
    assert tmp_path.exists()


@pytest.mark.parametrize(
    ("kind", "root", "name"),
    [
        (Kind.CHECKPOINT, "checkpoints", ".."),
        (Kind.CHECKPOINT, "checkpoints", "../experiments"),
        (Kind.CHECKPOINT, "checkpoints/../experiments", "1"),
        (Kind.CHECKPOINT, "checkpoints", "link"),
        (Kind.CHECKPOINT, "checkpoints", "of-another-home"),
        (Kind.CHECKPOINT, "checkpoints", "of-another-experiment"),
        (Kind.CHECKPOINT, "elsewhere", "notes"),
        (Kind.EXPERIMENT, "experiments", "2"),
        (Kind.EXPERIMENT, "checkpoints", "of-another-experiment"),
        (Kind.SCRATCH, "scratch/2", "t2-a"),
        (Kind.UNFINISHED, "checkpoints", "of-another-home"),
    ],
)
def test_what_the_note_does_not_name_exactly_is_kept(made, store, home, tmp_path, kind, root, name):
    save(home / "checkpoints", "of-another-home", home_id="other")
    save(home / "checkpoints", "of-another-experiment", experiment_id=7)
    for path in ("experiments/1", "experiments/2", "scratch/2/t2-a", "elsewhere/notes"):
        (home / path).mkdir(parents=True)
    (tmp_path / "precious").mkdir()
    (home / "checkpoints" / "link").symlink_to(tmp_path / "precious")
    before = sorted(tmp_path.rglob("*"))

    left = run(made, store, (kind, pathlib.PurePath(root), name))

    assert left == [name]
    assert [path for path in before if not path.exists()] == []


def test_a_storage_that_is_not_there_is_no_reason_to_forget(made, store, tmp_path):
    assert run(made, store, (Kind.CHECKPOINT, tmp_path / "unmounted", UUID)) == [UUID]


def mark(root):
    root.mkdir(exist_ok=True)
    (root / ".quintain-mine.mark").touch()
    return root


def test_nothing_is_forgotten_where_an_empty_directory_takes_the_place_of_a_disk(
    made, store, home, tmp_path
):
    (tmp_path / "mounted").mkdir()
    (home / "checkpoints").symlink_to(tmp_path / "mounted")
    noted = [
        (Kind.CHECKPOINT, tmp_path / "mounted", UUID),
        (Kind.UNFINISHED, tmp_path / "mounted", ".t1-a.tmp"),
        (Kind.CHECKPOINT, home / "checkpoints", "b"),
    ]
    assert run(made, store, *noted) == [UUID, ".t1-a.tmp", "b"]

    mark(tmp_path / "mounted")
    assert run(deletions.Deletions(store, home), store) == []


@pytest.mark.parametrize("found", [None, "other"])
def test_nothing_is_forgotten_where_the_home_is_not_mounted(made, store, home, found):
    (home / "checkpoints").mkdir()
    (home / "home.json").unlink()
    if found:
        (home / "home.json").write_text(json.dumps({"home_id": found}))
    noted = [
        (Kind.CHECKPOINT, home / "checkpoints", UUID),
        (Kind.EXPERIMENT, home / "experiments", "1"),
        (Kind.SCRATCH, home / "scratch" / "1", "t2-a"),
    ]
    assert run(made, store, *noted) == [UUID, "1", "t2-a"]


def test_a_deletion_that_was_interrupted_is_finished_by_the_next_master(made, store, home):
    directory = save(home / "checkpoints")
    with store.transaction() as session:
        session.add_deletions(made.note(Kind.CHECKPOINT, directory.parent, [UUID], 1))
    (directory / "weights").unlink()

    again = deletions.Deletions(store, home)
    again.home_id = "mine"
    again.run()

    assert not directory.exists()


def test_the_manifest_goes_last(made, store, home, monkeypatch):
    directory = save(home / "checkpoints")
    (directory / "more").mkdir()

    def fail(path, **_):
        raise PermissionError(f"{path}: not yours")

    monkeypatch.setattr(directory_storage.shutil, "rmtree", fail)
    assert run(made, store, (Kind.CHECKPOINT, directory.parent, UUID)) == [UUID]
    assert (directory / "metadata.json").exists()


def test_a_home_that_was_moved_finds_what_it_noted(made, store, home, tmp_path):
    directory = save(home / "checkpoints")
    with store.transaction() as session:
        session.add_deletions(made.note(Kind.CHECKPOINT, directory.parent, [UUID], 1))
    (tmp_path / "new").mkdir()
    (home / "checkpoints").rename(tmp_path / "new" / "checkpoints")

    moved = deletions.Deletions(store, tmp_path / "new")
    moved.home_id = "mine"
    moved.run()

    assert list((tmp_path / "new" / "checkpoints").iterdir()) == []


def test_a_copy_deletes_its_own_copies_and_nothing_that_the_original_has(
    made, store, home, tmp_path
):
    content = {"home_id": "mine", "former_ids": ["original"]}
    (home / "home.json").write_text(json.dumps(content))
    inside = save(home / "checkpoints", home_id="original")
    outside = save(tmp_path / "outside", home_id="original")
    left = run(
        made,
        store,
        (Kind.CHECKPOINT, inside.parent, UUID),
        (Kind.CHECKPOINT, outside.parent, UUID),
    )
    assert left == [UUID]
    assert (inside.exists(), outside.exists()) == (False, True)


def test_what_a_copy_of_the_home_has_outside_of_it_is_kept_while_the_copy_is_there(
    store, home, tmp_path
):
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "home.json").write_text(json.dumps({"home_id": "copy"}))
    noted = {str(copy): {"home_id": "copy", "time": time.time()}}
    (home / "copies.json").write_text(json.dumps(noted))
    inside, outside = save(home / "checkpoints"), save(tmp_path / "outside")
    names = [(Kind.CHECKPOINT, inside.parent, UUID), (Kind.CHECKPOINT, outside.parent, UUID)]

    def run_anew(*names):
        made = deletions.Deletions(store, home)
        made.home_id = "mine"
        return run(made, store, *names)

    assert run_anew(*names) == [UUID]
    assert (inside.exists(), outside.exists()) == (False, True)
    (copy / "home.json").unlink()
    assert run_anew() == []
    assert not outside.exists()
