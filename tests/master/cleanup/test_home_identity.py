import json
import shutil
from unittest import mock

import pytest

from quintain import errors
from quintain import store as stores
from quintain.master.cleanup import home_identity
from quintain.records.rows import deletion
from quintain.testing import store_case


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home" / "checkpoints").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def open_store(home):
    opened = []

    def open_store(name="quintain.db"):
        opened.append(stores.open_store(home / name))
        return opened[-1]

    yield open_store
    for each in opened:
        each.close()


def save(home, name="c", **fields):
    directory = home / "checkpoints" / name
    directory.mkdir()
    content = {"format": 1, "kind": "K", "total_batches": 5, "experiment_id": 1, "trial_id": 2}
    content |= {"seed": 3, "hparams": {}, **fields}
    (directory / "metadata.json").write_text(json.dumps(content))


def add_experiment(store):
    with store.transaction() as session:
        return session.add_experiment(store_case.new_experiment()).id


def test_a_home_is_named_once_in_its_directory_and_in_its_database(home, open_store):
    store = open_store()
    home_id = home_identity.claim(home, store)

    assert home_identity.claim(home, store) == home_id == home_identity.read_id(home)
    with store.reading() as session:
        assert session.get_home_id() == home_id


def test_a_database_of_a_former_version_is_taken_for_that_of_the_home(home, open_store):
    store = open_store()
    add_experiment(store)
    save(home)

    assert home_identity.claim(home, store)


@pytest.mark.parametrize("content", ["", '{"home_', "\0\0\0", "[]"])
def test_a_torn_name_is_written_again_from_the_database(home, open_store, content, caplog):
    store = open_store()
    home_id = home_identity.claim(home, store)
    (home / "home.json").write_text(content)

    assert home_identity.claim(home, store) == home_id == home_identity.read_id(home)
    assert "home.json" in caplog.text


def test_an_empty_database_beside_checkpoints_is_refused_until_a_user_wants_it(home, open_store):
    former = home_identity.claim(home, open_store())
    save(home, home_id=former)
    lost = open_store("new.db")
    with pytest.raises(errors.StateError, match=r"1 checkpoints are in .*--new-database"):
        home_identity.claim(home, lost)
    with lost.reading() as session:
        assert session.get_home_id() is None

    assert home_identity.claim(home, lost, accept_new_database=True) != former
    # From now on it is this home's, and the old one is not.
    assert home_identity.claim(home, lost)
    with pytest.raises(errors.StateError, match="before this home"):
        home_identity.claim(home, open_store())


def test_an_old_copy_without_any_experiment_is_recognised(home, open_store):
    store = open_store()
    save(home, home_id=home_identity.claim(home, store))

    with pytest.raises(errors.StateError, match="an old copy"):
        home_identity.claim(home, store)


def test_a_database_whose_experiments_were_all_deleted_is_no_lost_one(home, open_store):
    store = open_store()
    experiment_id = add_experiment(store)
    save(home, home_id=home_identity.claim(home, store), experiment_id=experiment_id)
    with store.transaction() as session:
        session.delete_experiment(experiment_id)

    assert home_identity.claim(home, store)


def test_the_database_of_another_home_is_refused(home, open_store, tmp_path):
    home_identity.claim(home, open_store())
    other = open_store("other.db")
    with other.transaction() as session:
        session.set_home_id("theirs")
    with pytest.raises(errors.StateError, match=r"another home \(theirs"):
        home_identity.claim(home, other)
    with pytest.raises(errors.StateError, match="Use that home") as refused:
        home_identity.claim(home, other, accept_new_database=True)
    assert "--new-database" not in str(refused.value)
    assert home_identity.read_id(home) != "theirs"


def test_a_home_goes_back_to_the_database_that_it_had_before(home, open_store):
    first, second = open_store(), open_store("new.db")
    former = home_identity.claim(home, first)
    save(home, home_id=former)
    home_identity.claim(home, second, accept_new_database=True)

    with pytest.raises(errors.StateError, match="before this home got a new one"):
        home_identity.claim(home, first)
    assert home_identity.claim(home, first, accept_new_database=True) == former
    assert home_identity.claim(home, second, accept_new_database=True) != former


def test_a_home_with_experiments_does_not_begin_with_an_empty_database(home, open_store):
    first, other = open_store(), open_store("other.db")
    home_identity.claim(home, first)
    assert home_identity.find_rebinding(home, home / "other.db", other) == ""
    add_experiment(first)

    problem = home_identity.find_rebinding(home, home / "other.db", other)

    assert f"has its experiments in {home / 'quintain.db'}" in problem
    assert "which is empty" in problem
    assert "quintain store copy" in problem
    assert home_identity.find_rebinding(home, home / "quintain.db", first) == ""


def test_a_home_goes_over_to_a_copy_of_its_database_and_to_no_other_homes(home, open_store):
    first, second = open_store(), open_store("copy.db")
    home_id = home_identity.claim(home, first)
    add_experiment(first)
    with second.transaction() as session:
        session.set_home_id("another")

    problem = home_identity.find_rebinding(home, home / "copy.db", second)
    with second.transaction() as session:
        session.set_home_id(home_id)

    assert "that of another home (another)" in problem
    assert home_identity.find_rebinding(home, home / "copy.db", second) == ""


def test_a_new_home_does_not_take_the_database_of_another_one(home, open_store):
    store = open_store("other.db")
    with store.transaction() as session:
        session.set_home_id("another")

    problem = home_identity.find_rebinding(home, "postgresql://me:secret@host/db", store)

    assert "is a new home directory" in problem
    assert "postgresql+psycopg://me@host/db is the database of another one (another)" in problem


def copy(home, open_store, tmp_path):
    """Copies a home with its database, and returns both."""
    shutil.copytree(home, tmp_path / "copy", symlinks=True)
    return tmp_path / "copy", open_store(tmp_path / "copy" / "quintain.db")


def test_a_copy_gets_a_name_of_its_own_while_the_original_is_there(
    home, open_store, tmp_path, caplog
):
    store = open_store()
    home_id = home_identity.claim(home, store)
    with store.transaction() as session:
        owner = session.add_experiment(store_case.new_experiment()).id
        notes = [("checkpoints", "inside"), ("/elsewhere", "outside"), ("s3://bucket", "remote")]
        session.add_deletions(
            [
                deletion.Deletion(0, deletion.DeletionKind.UNFINISHED, root, name, owner, 1.0)
                for root, name in notes
            ]
        )
    store.close()
    copied, own = copy(home, open_store, tmp_path)

    copy_id = home_identity.claim(copied, own)
    assert copy_id != home_id
    assert f"copy of the home {home}" in caplog.text
    assert home_identity.claim(copied, own) == copy_id == home_identity.read_id(copied)
    with own.reading() as session:
        assert session.get_home_id() == copy_id
        # What the original has begun to save is not let go of.
        assert [each.name for each in session.list_deletions()] == ["inside"]
    assert home_identity.claim(home, open_store()) == home_id
    assert list(home_identity.find_copies(home)) == [str(copied)]
    shutil.rmtree(copied)
    assert home_identity.find_copies(home) == {}


def test_a_copy_that_was_interrupted_while_it_got_its_name_is_still_one(
    home, open_store, tmp_path, monkeypatch
):
    store = open_store()
    home_id = home_identity.claim(home, store)
    store.close()
    copied, own = copy(home, open_store, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(own, "transaction", mock.Mock(side_effect=errors.StoreError("killed")))
        with pytest.raises(errors.StoreError, match="killed"):
            home_identity.claim(copied, own)

    assert home_identity.claim(copied, own) != home_id
    assert home_identity.find_original(copied) is None


def test_a_home_that_was_moved_keeps_its_name(home, open_store, tmp_path):
    store = open_store()
    home_id = home_identity.claim(home, store)
    store.close()
    moved = home.rename(tmp_path / "moved")
    (tmp_path / "link").symlink_to(moved)
    own = open_store(moved / "quintain.db")

    assert home_identity.claim(moved, own) == home_id
    assert home_identity.claim(tmp_path / "link", own) == home_id
    assert json.loads((moved / "home.json").read_text())["place"] == str(moved)


def test_a_copy_beside_the_same_database_is_the_same_home(home, open_store, tmp_path):
    store = open_store(tmp_path / "shared.db")
    home_id = home_identity.claim(home, store)
    shutil.copytree(home, tmp_path / "copy")
    assert home_identity.claim(tmp_path / "copy", store) == home_id
