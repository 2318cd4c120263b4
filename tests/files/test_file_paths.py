import pytest

from quintain.files import file_paths


@pytest.mark.parametrize(
    ("path", "directory", "name"),
    [
        ("a/b", "a", "b"),
        ("b", "", "b"),
        ("/b", "/", "b"),
        ("gs://bucket/a/b", "gs://bucket/a", "b"),
        ("gs://bucket/a/", "gs://bucket/a", ""),
        ("gs://bucket/a", "gs://bucket", "a"),
        ("gs://bucket", "gs://bucket", ""),
        ("ram://a/b", "ram://a", "b"),
        ("ram://a", "ram://", "a"),
        ("ram:///a", "ram:///", "a"),
        ("ram://", "ram://", ""),
        ("file:///a/b", "file:///a", "b"),
        ("https://host/a.yaml", "https://host", "a.yaml"),
    ],
)
def test_a_directory_never_loses_a_slash_or_the_bucket(path, directory, name):
    assert file_paths.split(path) == (directory, name)


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("gs://bucket/m/", "gs://bucket/m"),
        ("gs://bucket/", "gs://bucket"),
        ("ram:///m", "ram:///m"),
        ("ram://", "ram://"),
        ("a//b/../c/", "a/c"),
    ],
)
def test_the_normal_spelling_keeps_what_a_url_begins_with(path, normal):
    assert file_paths.normal(path) == normal


@pytest.mark.parametrize("path", ["a/b", "/a", "C:x", "a:b//c", "x=gs://y"])
def test_what_does_not_begin_as_a_url_is_local(path):
    assert file_paths.is_local(path)
