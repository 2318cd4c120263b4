"""What goes wrong with object stores, the same with each, against servers of this machine."""

import pathlib
import threading

import pytest

from quintain import errors
from quintain.cli.training import staged_runs
from quintain.storage import checkpoint_storage, fsspec_storage, remote_systems, retries, run_mirror

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]

NOBODY = checkpoint_storage.Writer()
NAME = "0b1c2d3e-0000-4000-8000-000000000001"


@pytest.fixture
def road(store, given):
    road = given.Road(store.port)
    yield road
    road.close()


@pytest.fixture
def build(store, given, tmp_path):
    def build(url=None, port=None, **settings):
        return fsspec_storage.FsspecStorage(
            url or store.url(),
            store.options(port),
            settings.pop("writer", given.WRITER),
            scratch=tmp_path / "scratch",
            **settings,
        )

    return build


@pytest.fixture
def bucket(store):
    name = f"b{threading.get_ident()}-{id(store)}"
    store.make_bucket(name)
    return name


@pytest.mark.parametrize(
    "call",
    [
        lambda storage, path: storage.fetch(NAME, path / "copy"),
        lambda storage, _: storage.find_damage(NAME, {}),
        lambda storage, _: storage.list(),
        lambda storage, _: storage.delete(NAME),
        lambda storage, _: storage.read(NAME, "metadata.json"),
        lambda storage, _: storage.open(NAME, "metadata.json"),
        lambda storage, _: storage.delete_unfinished(".t7-0123.tmp", "home-1"),
        lambda storage, path: run_mirror.RunMirror(
            storage.place, patience_secs=0.0, options=storage._options
        ).pull(path),
    ],
)
def test_bucket_that_is_gone_says_nothing_about_what_is_in_it(store, build, tmp_path, call):
    storage = build(store.url("gone-for-good", "a"), writer=NOBODY)

    with pytest.raises(errors.CheckpointError, match=r"gone-for-good|bucket does not") as caught:
        call(storage, tmp_path)

    assert not isinstance(caught.value, errors.DamagedCheckpointError | errors.NotFoundError)


def test_trials_wait_for_a_bucket_that_is_gone(
    store, build, bucket, given, tmp_path, replace_sleep
):
    storage = build(store.url(bucket, "a"), patience_secs=600.0)
    given.save(storage, NAME)
    store.remove_bucket(bucket)
    waits, told = [], []

    def make_bucket(secs):
        waits.append(secs)
        if len(waits) == 3:
            store.make_bucket(bucket)

    replace_sleep(retries, make_bucket)
    with retries.wait_listener(told.append):
        given.save(storage, NAME)

    assert len(waits) >= 3
    assert "writing" in told[0]
    assert told[-1] == ""
    assert build(storage.place).find_damage(NAME, {}) is None


def test_trials_outlast_withdrawn_credentials(store, build, road, given, tmp_path, replace_sleep):
    storage = build(port=road.port, patience_secs=600.0)
    given.save(storage, NAME)
    road.refuse(store.refusal())
    waits, told = [], []

    def give_back(secs):
        waits.append(secs)
        if len(waits) == 3:
            road.refuse(None)

    replace_sleep(retries, give_back)
    with retries.wait_listener(told.append):
        found = storage.fetch(NAME, tmp_path / "copy")

    assert (found / "ä.json").read_text() == "{}"
    assert len(waits) >= 3
    assert "listing" in told[0]
    assert told[-1] == ""


def test_nobody_else_waits_for_credentials(store, build, road, given, replace_sleep):
    road.refuse(store.refusal())
    storage = build(port=road.port, writer=NOBODY)
    replace_sleep(retries, lambda secs: pytest.fail("It was tried again."))

    with pytest.raises(errors.CheckpointError, match="Check the credentials of this machine"):
        storage.list()
    with pytest.raises(errors.ConfigError, match="with the credentials that were found") as told:
        storage.check()

    assert {"s3": "AWS_", "gs": "GOOGLE_", "azure": "AZURE_"}[store.kind] in str(told.value)


def test_server_that_goes_while_files_are_sent_and_comes_again(
    store, build, road, given, replace_sleep
):
    storage = build(port=road.port, patience_secs=600.0)
    staged = storage.stage(NAME)
    given.write(staged)
    road.close_after(4000)  # In the middle of the first file of 10,240 bytes.
    waits = []

    def come_again(secs):
        waits.append(secs)
        if len(waits) == 4:
            road.open()

    replace_sleep(retries, come_again)
    storage.commit(staged, NAME)

    assert len(waits) >= 4
    assert build(storage.place).find_damage(NAME, {}) is None


def test_server_that_stays_away_leaves_no_checkpoint(store, build, road, given):
    storage = build(port=road.port, patience_secs=0.0)
    staged = storage.stage(NAME)
    given.write(staged)
    road.close_after(4000)

    with pytest.raises(errors.CheckpointError, match=f"{NAME}.*: writing"):
        storage.commit(staged, NAME)

    there = build(storage.place)
    assert not any(each.is_complete for each in there.list())
    there.delete_unfinished(".t7-0123.tmp", given.HOME)
    assert there.list() == []


@pytest.mark.parametrize(
    ("bucket_name", "message"),
    [
        ("no-such-bucket", "there is no 'no-such-bucket'.*Create it"),
        (None, "can't be written at http://127.0.0.1:1.*Check the address"),
    ],
)
def test_what_is_wrong_is_said_at_once(store, build, monkeypatch, bucket_name, message):
    monkeypatch.setattr(fsspec_storage, "_CHECK_SECS", 0.0)
    storage = build(store.url(bucket_name or "runs", "a"), port=None if bucket_name else 1)

    with pytest.raises(errors.ConfigError, match=message):
        storage.check()


@pytest.mark.long("Further cases of a test of which some run every time")
def test_run_is_written_through_a_copy_and_read_again(store, monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv(*store.variable())
    url = store.url("runs", f"run of {store.kind}", "first")
    with staged_runs.training(url) as copy:
        pathlib.Path(copy, "train").mkdir()
        pathlib.Path(copy, "train/ä.txt").write_text("1")

    with staged_runs.training(url) as copy:
        assert pathlib.Path(copy, "train/ä.txt").read_text() == "1"
        pathlib.Path(copy, "train/ä.txt").write_text("12")
    with staged_runs.reading(url) as copy:
        assert pathlib.Path(copy, "train/ä.txt").read_text() == "12"

    missing = store.url("no-such-bucket", "first")
    with pytest.raises(errors.ConfigError, match=f"--model-dir: {missing}: there is no 'no-such"):
        staged_runs.training(missing).__enter__()
    with pytest.raises(errors.QuintainError, match=r"no-such-bucket.*(there is no|does not exist)"):
        staged_runs.reading(missing).__enter__()


@pytest.mark.parametrize(
    "call",
    [
        lambda system, path: system.find("runs/a"),
        lambda system, path: system.cat_file("runs/a"),
        lambda system, path: system.pipe_file("runs/a", b"a"),
        lambda system, path: system.put_file(str(path / "a"), "runs/a"),
        lambda system, path: system.get_file("runs/a", str(path / "b")),
        lambda system, path: system.rm_file("runs/a"),
    ],
)
def test_clients_repeat_nothing_by_themselves(store, road, tmp_path, call):
    (tmp_path / "a").write_text("a")
    system, _ = remote_systems.open_system(store.url(), store.options(road.port))
    road.refuse(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    with pytest.raises(Exception) as caught:  # noqa: PT011 - each client has its own.
        call(system, tmp_path)

    assert not retries.is_lasting(caught.value)
    # Azure's looks whether there is a file before it lists what is below.
    assert road.num_refused <= 2
