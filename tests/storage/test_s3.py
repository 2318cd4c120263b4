"""Against a server that speaks S3, on this machine."""

import uuid

import pytest

from quintain import errors
from quintain.storage import fsspec_storage, retries

pytestmark = pytest.mark.slow

NAME = "0b1c2d3e-0000-4000-8000-000000000001"


@pytest.fixture
def road(s3_port, given):
    road = given.Road(s3_port)
    yield road
    road.close()


def build(given, tmp_path, options, **settings):
    url = f"s3://runs/{uuid.uuid4().hex}"
    return fsspec_storage.FsspecStorage(
        url, options, given.WRITER, scratch=tmp_path / "scratch", **settings
    )


def test_server_that_goes_while_files_are_sent_and_comes_again(
    s3, road, tmp_path, monkeypatch, given, replace_sleep
):
    storage = build(given, tmp_path, {"endpoint_url": road.url}, patience_secs=600.0)
    monkeypatch.setattr(storage._system, "retries", 1)
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
    assert build_again(storage, s3).find_damage(NAME, {}) is None


def test_a_bucket_that_is_gone_and_comes_again_is_waited_for_by_trials(
    s3, tmp_path, given, replace_sleep
):
    bucket = f"later-{uuid.uuid4().hex}"
    storage = fsspec_storage.FsspecStorage(
        f"s3://{bucket}/a", s3, given.WRITER, scratch=tmp_path / "scratch", patience_secs=600.0
    )
    maker = build(given, tmp_path, s3)._system
    waits, told = [], []

    def make_bucket(secs):
        waits.append(secs)
        if len(waits) == 3:
            maker.mkdir(bucket)

    replace_sleep(retries, make_bucket)
    with retries.telling(told.append):
        given.save(storage, NAME)

    assert len(waits) >= 3
    assert "bucket does not exist" in told[0]
    assert build_again(storage, s3).find_damage(NAME, {}) is None
    maker.rm(bucket, recursive=True)
    with pytest.raises(errors.CheckpointError) as caught:
        build_again(storage, s3).fetch(NAME, tmp_path / "copy")
    assert not isinstance(caught.value, errors.DamagedCheckpointError)


def build_again(storage, options):
    return fsspec_storage.FsspecStorage(storage.place, options)


def test_server_that_stays_away_leaves_no_checkpoint(s3, road, tmp_path, monkeypatch, given):
    storage = build(given, tmp_path, {"endpoint_url": road.url}, patience_secs=0.0)
    monkeypatch.setattr(storage._system, "retries", 1)
    staged = storage.stage(NAME)
    given.write(staged)
    road.close_after(4000)

    with pytest.raises(errors.CheckpointError, match=f"{NAME}: writing: "):
        storage.commit(staged, NAME)

    there = build_again(storage, s3)
    assert not any(each.is_complete for each in there.list())
    there.delete_unfinished(".t7-0123.tmp", given.HOME)
    assert there.list() == []


def test_server_that_asks_to_slow_down_is_asked_again(
    s3, tmp_path, monkeypatch, given, replace_sleep
):
    storage = build(given, tmp_path, s3)
    call, refused = storage._system._call_s3, []

    async def slow_down(method, *args, **kwargs):
        if method == "put_object" and len(refused) < 3:
            refused.append(method)
            raise OSError(16, "Please reduce your request rate.")
        return await call(method, *args, **kwargs)

    monkeypatch.setattr(storage._system, "_call_s3", slow_down)
    replace_sleep(retries, lambda secs: None)

    given.save(storage, NAME)

    assert len(refused) == 3
    assert storage.find_damage(NAME, {}) is None


@pytest.mark.parametrize(
    ("bucket", "options", "message"),
    [
        ("no-such-bucket", {}, "there is no 'no-such-bucket'"),
        ("runs", {"profile": "nobody"}, r"profile \(nobody\) could not be found.*AWS_PROFILE"),
        ("runs", {"endpoint_url": "http://127.0.0.1:1"}, "can't be written at http://127.0.0.1:1"),
    ],
)
def test_what_is_wrong_is_said_at_once(s3, monkeypatch, bucket, options, message):
    monkeypatch.setattr(fsspec_storage, "_CHECK_SECS", 0.0)
    storage = fsspec_storage.FsspecStorage(f"s3://{bucket}/a", {**s3, **options})

    with pytest.raises(errors.ConfigError, match=message):
        storage.check()


@pytest.mark.parametrize("code", ["InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied"])
def test_credentials_that_are_refused_are_not_tried_again(s3, monkeypatch, code, replace_sleep):
    botocore = pytest.importorskip("botocore.exceptions")
    storage = fsspec_storage.FsspecStorage("s3://runs/a", s3)
    replace_sleep(retries, lambda secs: pytest.fail("It was tried again."))
    refusal = botocore.ClientError({"Error": {"Code": code, "Message": code}}, "PutObject")
    monkeypatch.setattr(fsspec_storage.remote_systems, "open_system", refuse_with(refusal))

    with pytest.raises(errors.ConfigError, match=f"{code}.*AWS_ACCESS_KEY_ID") as caught:
        storage.check()

    assert "not-to-be-seen" not in str(caught.value)


def refuse_with(refusal):
    import s3fs.errors  # noqa: PLC0415

    class Refusing:
        def pipe_file(self, path, content):
            raise s3fs.errors.translate_boto_error(refusal)

    return lambda url, options: (Refusing(), "runs/a")
