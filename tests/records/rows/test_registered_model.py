import subprocess

import pytest

from quintain import errors
from quintain.records.rows import registered_model
from quintain.testing import store_case


def make_version(number, **fields):
    return store_case.new_model_version(id=number, name="digits", version=number, **fields)


MODEL = registered_model.RegisteredModel(
    "digits",
    {"champion": 1},
    (make_version(1), make_version(2), make_version(3, is_deleted=True)),
    (),
)


@pytest.mark.parametrize(("mark", "version"), [("champion", 1), ("1", 1), ("2", 2)])
def test_a_version_is_found_by_its_number_or_an_alias(mark, version):
    assert MODEL.find(mark).version == version


@pytest.mark.parametrize(
    ("mark", "message"),
    [("challenger", "model has champion, 1, 2"), ("4", "model has champion"), ("3", "was deleted")],
)
def test_a_version_that_is_not_there_is_an_error_that_names_what_is(mark, message):
    with pytest.raises(errors.NotFoundError, match=message):
        MODEL.find(mark)


@pytest.mark.parametrize("text", ["digits", "digits@", "@champion", "a b@1", "../x@1", "x@y/z"])
def test_what_is_no_reference_is_an_error_that_shows_one(text):
    with pytest.raises(errors.ConfigError, match="expected NAME@VERSION or NAME@ALIAS"):
        registered_model.parse_reference(text)


@pytest.mark.parametrize("alias", ["", "3", "a@b", "ä", "x" * 101])
def test_an_alias_can_be_part_of_a_reference_and_is_no_number(alias):
    with pytest.raises(errors.ConfigError, match="alias: got"):
        registered_model.check_alias(alias)


def test_the_hash_is_what_sha256sum_prints_for_its_own_lines(tmp_path):
    (tmp_path / "b").write_text("two")
    (tmp_path / "a").write_text("one")
    lines = subprocess.check_output(["sha256sum", "a", "b"], cwd=tmp_path, text=True)
    files = {line.split()[1]: line.split()[0] for line in reversed(lines.splitlines())}
    expected = subprocess.check_output(["sha256sum"], input=lines, text=True).split()[0]
    assert registered_model.hash_names(files) == expected


def test_a_change_names_the_file():
    files = {"a": "1", "b": "2"}
    assert registered_model.find_change(files, {"a": "1", "b": "2", "c": "3"}) is None
    assert registered_model.find_change(files, {"a": "1", "b": "3"}) == "b has changed"
    assert registered_model.find_change(files, {"b": "2"}) == "a is gone"
