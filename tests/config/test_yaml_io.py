import math

import pytest
import yaml

from quintain import errors
from quintain.config import yaml_io


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1E5", 100000.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("-2.5e+3", -2500.0),
        ("17", 17),
        ("-3", -3),
        ("0o17", 15),
        ("0x1F", 31),
        ("010", 10),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("no", "no"),
        ("off", "off"),
        ("Yes", "Yes"),
        ("2024-01-01", "2024-01-01"),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ("None", "None"),
        ("'1'", "1"),
        ("[1, a, 1e2]", [1, "a", 100.0]),
        ("-.inf", -math.inf),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text, value):
    loaded = yaml_io.load_scalar(text)

    assert loaded == value
    assert type(loaded) is type(value)


def test_nan_is_a_number():
    assert math.isnan(yaml_io.load_scalar(".nan"))


VALUES = {
    "floats": [1e-9, 1e16, 0.1, 3.0, -0.0, math.inf],
    "strings": ["no", "1e-3", "null", "", " a", "a: b", "#c", "2024-01-01", "12:30", "ü\n", "'"],
    "nested": {"none": None, "bool": True, "int": 3, "list": [[1, 2], {"a": []}], "empty": {}},
    "tuple": (1, 2),
}


def test_what_is_written_reads_back_equal():
    assert yaml_io.load_text(yaml_io.dump(VALUES)) == {**VALUES, "tuple": [1, 2]}


def test_what_is_written_reads_back_equal_under_yaml_1_1():
    assert yaml.safe_load(yaml_io.dump(VALUES)) == {**VALUES, "tuple": [1, 2]}


def test_nothing_changes_for_other_users_of_yaml():
    assert yaml.safe_load("a: no") == {"a": False}
    assert yaml.safe_load("a: 1e-3") == {"a": "1e-3"}


def test_lines_of_keys_are_known(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("# comment\na:\n  b: 1\n  c:\n  - d: 2\n")

    content, lines = yaml_io.load_file_with_lines(str(path))

    assert content == {"a": {"b": 1, "c": [{"d": 2}]}}
    assert lines == {"a": 2, "a.b": 3, "a.c": 4, "a.c[0].d": 5}
    assert yaml_io.find_line(lines, "a.c[0].d.e") == 5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"# only a comment\n", "the file is empty"),
        (b"- 1\n- 2\n", "expected names with values"),
        (b"a: [1, 2\n", "not YAML"),
        (b"a: 1\nb: 2\na: 3\n", ":3: 'a' is given twice, first in line 1"),
        (b"a: \xff\n", "not UTF-8 at byte 3"),
    ],
)
def test_a_bad_file_is_an_error_that_names_it(tmp_path, content, message):
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)

    with pytest.raises(errors.ConfigError) as caught:
        yaml_io.load_file(str(path))

    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(errors.ConfigError, match=r"none\.yaml: can't be read"):
        yaml_io.load_file(str(tmp_path / "none.yaml"))


def test_a_syntax_error_shows_the_line(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("a: 1\nb: {c: 2\nd: 3\n")

    with pytest.raises(errors.ConfigError, match=r"bad\.yaml:\d+:\d+: not YAML"):
        yaml_io.load_file(str(path))
