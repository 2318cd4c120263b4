import os

import pytest

from quintain.files import user_cache


@pytest.fixture(name="directory")
def _directory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache ü"))
    return tmp_path / "cache ü" / "quintain" / "parts"


def test_what_was_used_longest_ago_is_removed(directory, monkeypatch):
    monkeypatch.setattr(user_cache, "NUM_KEPT", 2)
    for age, key in enumerate(["old", "used", "new"]):
        user_cache.save("parts", key, key.encode())
        os.utime(directory / key, (age, age))
        if key == "used":
            assert user_cache.load("parts", "old") == b"old"  # It is the newest now.

    assert user_cache.load("parts", "used") is None
    assert user_cache.load("parts", "old") == b"old"
    assert user_cache.load("parts", "new") == b"new"


def test_a_damaged_content_is_none(directory):
    user_cache.save("parts", "one", b"content")
    (directory / "one").write_bytes((directory / "one").read_bytes()[:-1])

    assert user_cache.load("parts", "one") is None
