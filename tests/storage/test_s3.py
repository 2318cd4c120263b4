"""Against a server that speaks S3, on this machine."""

import uuid

import pytest

from quintain import errors
from quintain.storage import fsspec_storage, retries

pytestmark = pytest.mark.slow

NAME = "0b1c2d3e-0000-4000-8000-000000000001"


def build(given, tmp_path, options, **settings):
    url = f"s3://runs/{uuid.uuid4().hex}"
    return fsspec_storage.FsspecStorage(
        url, options, given.WRITER, scratch=tmp_path / "scratch", **settings
    )


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


def test_profile_that_is_not_there_is_named(s3):
    storage = fsspec_storage.FsspecStorage("s3://runs/a", {**s3, "profile": "nobody"})

    with pytest.raises(errors.ConfigError, match=r"profile \(nobody\) could not.*AWS_PROFILE"):
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
