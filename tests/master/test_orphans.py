import contextlib
import json
import os
import pathlib
import sqlite3
import threading

import pytest

from quintain import errors
from quintain.master import orphans
from quintain.records import checkpoint_manifest

SINGLE = {"name": "single", "max_length": 10}


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def master(make_master, make_workers, config_text):
    """Returns a master whose one trial has ended."""
    master = make_master()
    master.commands.create_experiment(
        config_text(SINGLE, min_checkpoint_period={"batches": 5}), None
    )
    make_workers(master).run()
    return master


def save(master, home, name, root=None, **fields):
    """Writes a checkpoint of the trial, which nobody has reported."""
    with master._shared.store.reading() as session:
        (trial,) = session.list_trials()
    directory = (root or home / "checkpoints") / name
    directory.mkdir(parents=True)
    (directory / "weights").write_bytes(b"12345")
    content = {"format": 1, "kind": "K", "total_batches": 5, "experiment_id": 1, "trial_id": 1}
    content |= {"seed": trial.seed, "hparams": trial.hparams, "launch_id": "t1-a"}
    content |= {"home_id": json.loads((home / "home.json").read_text())["home_id"], **fields}
    content["sizes"] = checkpoint_manifest.list_files(directory)
    content["hashes"] = checkpoint_manifest.hash_files(directory)
    (directory / "metadata.json").write_text(json.dumps(content))
    return directory


def list_found(master, home):
    return {each.name: each for each in orphans.find(master._shared.store, home)}


def test_what_the_store_does_not_know_is_listed_with_where_it_comes_from(master, home):
    directory = save(master, home, "lost")
    save(master, home, "foreign", home_id="theirs")
    save(master, home, "old", experiment_id=9)
    save(master, home, "other", seed=1)
    (home / "checkpoints" / ".t1-b.tmp").mkdir()
    (home / "checkpoints" / "notes.txt").write_text("mine")

    found = list_found(master, home)

    lost = found.pop("lost")
    assert (lost.path, lost.experiment_id, lost.trial_id) == (str(directory), 1, 1)
    assert (lost.total_batches, lost.launch_id, lost.problem) == (5, "t1-a", "")
    assert lost.num_bytes > 5
    assert {name: each.problem.partition(":")[0][:24] for name, each in found.items()} == {
        ".t1-b.tmp": "it has no manifest",
        "foreign": "it is of another home, o",
        "old": "the database does not kn",
        "other": "trial 1 of the database ",
    }


def test_in_a_storage_of_several_homes_only_their_own_are_looked_at(
    make_master, make_workers, config_text, home, tmp_path
):
    shared = tmp_path / "shared [1]"
    master = make_master()
    storage = {"checkpoint_storage": {"host_path": str(shared)}}
    master.commands.create_experiment(config_text(SINGLE, **storage), None)
    save(master, home, "lost", shared)
    save(master, home, "foreign", shared, home_id="theirs")
    save(master, home, "unnamed", shared, home_id="")

    assert list(list_found(master, home)) == ["lost"]


def test_what_a_process_is_about_to_report_is_no_orphan(
    make_master, config_text, home, fake_launcher
):
    master = make_master()
    master.commands.create_experiment(config_text(SINGLE), None)
    master.tick()
    (launch_id,) = fake_launcher.alive
    save(master, home, "fresh", launch_id=launch_id)
    (home / "checkpoints" / checkpoint_manifest.unfinished_name(launch_id)).mkdir()

    assert list_found(master, home) == {}
    # Nobody knows what is whole; what is unfinished was that process's alone.
    fake_launcher.end(launch_id, signal=9)
    master.tick()
    assert list(list_found(master, home)) == ["fresh"]
    assert [path.name for path in (home / "checkpoints").iterdir()] == ["fresh"]


def test_an_adopted_checkpoint_is_its_trials_and_is_kept_until_it_is_named(master, home):
    save(master, home, "lost", total_batches=10)

    adopted = master.commands.adopt_orphan("lost")

    assert (adopted.trial_id, adopted.total_batches, adopted.is_adopted) == (1, 10, True)
    assert adopted.metric is not None
    assert adopted.files["weights"] == 5
    nothing = {"save_trial_best": 0, "save_trial_latest": 0}
    master.commands.update_experiment(1, {"checkpoint_storage": nothing})
    master.tick()
    assert (home / "checkpoints" / "lost").exists()
    master.commands.delete_checkpoint("lost")
    assert not (home / "checkpoints" / "lost").exists()
    assert list_found(master, home) == {}


@pytest.mark.parametrize("change", [{"experiment_id": 9}, {"seed": 1}, {"home_id": "theirs"}])
def test_what_the_store_can_not_take_is_refused_with_what_can_be_done(master, home, change):
    directory = save(master, home, "lost", **change)
    with pytest.raises(errors.CheckpointError, match=r"checkpoint export.*restore the database"):
        master.commands.adopt_orphan("lost")
    assert directory.exists()


def test_a_damaged_orphan_is_not_adopted(master, home):
    (save(master, home, "lost") / "weights").write_bytes(b"1")
    with pytest.raises(errors.CheckpointError, match="weights has 1 bytes, expected 5"):
        master.commands.adopt_orphan("lost")


def test_only_the_orphan_that_is_named_is_deleted(master, home, tmp_path):
    lost, foreign = save(master, home, "lost"), save(master, home, "foreign", home_id="theirs")
    os.symlink(tmp_path, foreign / "link")

    assert master.commands.delete_orphan("foreign").path == str(foreign)

    assert (lost.exists(), foreign.exists(), tmp_path.exists()) == (True, False, True)
    with pytest.raises(errors.NotFoundError, match="checkpoint orphans"):
        master.commands.delete_orphan("foreign")


def test_an_older_copy_of_the_database_deletes_nothing(
    make_master, make_workers, config_text, home, store, fake_launcher, caplog
):
    master = make_master()
    config = config_text(SINGLE, min_checkpoint_period={"batches": 2})
    master.commands.create_experiment(config, None)
    workers = make_workers(master)
    master.tick()
    (launch_id,) = fake_launcher.alive
    for _ in range(3):
        workers.step(launch_id)
    with contextlib.closing(sqlite3.connect(home / "quintain.db")) as connection:
        former = connection.serialize()
    fake_launcher.end(launch_id, exit_code=1)
    for name in ("first", "second"):
        save(master, home, name)
    before = sorted((home / "checkpoints").rglob("*"))
    store.close()
    for path in home.glob("quintain.db-*"):
        path.unlink()
    pathlib.Path(home / "quintain.db").write_bytes(former)  # The same file, by its number.

    master = make_master()
    orphans.tell(store, home)
    make_workers(master).run()

    assert [path for path in before if not path.exists()] == []
    assert "2 directories of checkpoints" in caplog.text


def test_a_master_starts_although_a_storage_does_not_answer(make_master, config_text, monkeypatch):
    is_asked, answers = threading.Event(), threading.Event()

    def find(store, home):
        is_asked.set()
        assert answers.wait(60)
        return []

    monkeypatch.setattr(orphans, "find", find)
    master = make_master()
    master.start()
    try:
        assert is_asked.wait(60)
        master.commands.create_experiment(config_text(SINGLE), None)
        assert master.status_of(1) is not None
    finally:
        answers.set()
        master.stop()


def test_what_is_deleted_while_a_storage_is_listed_is_no_orphan(master, home, monkeypatch):
    listing = orphans._list_entries

    def list_entries(storage):
        found = listing(storage)
        with contextlib.closing(sqlite3.connect(home / "quintain.db")) as connection:
            assert connection.execute("DELETE FROM checkpoints").rowcount > 0
            connection.commit()
        return found

    monkeypatch.setattr(orphans, "_list_entries", list_entries)

    assert list_found(master, home) == {}
