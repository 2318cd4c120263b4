import enum
import math
import random
import re

import pytest
import yaml

from quintain import errors
from quintain.config import base_config, yaml_io, yaml_nodes


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
    "1.1": ["y", "N", "0b1", "1_000", "<<", "=", "0o17", "+0x1F", "1:30.5", "~"],
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
    assert yaml_io.find_line(lines, "a.c[7]") == 4
    assert yaml_io.find_line(lines, "x.y") == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"# only a comment\n", "the file is empty"),
        (b"- 1\n- 2\n", "expected names with values"),
        (b"a: [1, 2\n", "not YAML"),
        (b"a: 1\nb: 2\na: 3\n", ":3:1: 'a' is given twice, first in line 1"),
        (b"a: \xff\n", "not UTF-8 at byte 3"),
        (b"text\n", "the top level is a value"),
        (b"a:\n\tb: 1\n", ":2:1: not YAML: found character that cannot start any token; indent"),
        (b"a: 'x\n", "close the quote"),
        (b"a: b: c\n", "put text that contains `: ` in quotes"),
        (b"a: 1\n---\nb: 2\n", ":2:1: not YAML: but found another document; expected one"),
        (b"a: *b\n", "undefined alias"),
        (b"a: &x [*x]\n", ":1:4: an alias refers to what contains it"),
        (b"a: !!int b\n", ":1:4: 'b' is no int"),
        (b"a: !!bool maybe\n", "'maybe' is no bool"),
        (b"a: !!timestamp x\n", "the tag !!timestamp is not supported"),
        (b"a: !!python/object:os.x {}\n", "is not supported; expected plain data"),
        (b"a: !mine 1\n", "the tag !mine is not supported"),
        (b"? [a, b]\n: 1\n", "a name must be a word"),
        (b"true: 1\nTrue: 2\n", "'True' is given twice"),
        (b"a: 1\nb: \x01\n", ":2:4: not YAML: the control character '\\x01'"),
    ],
)
def test_a_bad_file_is_an_error_that_names_it(tmp_path, content, message):
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)

    with pytest.raises(errors.ConfigError) as caught:
        yaml_io.load_file(str(path))

    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_a_directory_is_an_error_that_names_it(tmp_path):
    with pytest.raises(errors.ConfigError, match="can't be read: Is a directory"):
        yaml_io.load_file(str(tmp_path))


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(errors.ConfigError, match=r"none\.yaml: can't be read"):
        yaml_io.load_file(str(tmp_path / "none.yaml"))


def test_an_error_points_at_the_place():
    with pytest.raises(yaml_nodes.YamlError) as caught:
        yaml_io.load_text("a: 1\nbc: {d: 2, d: 3}\n", "my.yaml")

    assert str(caught.value) == (
        "my.yaml:2:12: 'd' is given twice, first in line 2; remove one.\n"
        "  bc: {d: 2, d: 3}\n"
        "             ^"
    )
    assert caught.value.offset == 16


def test_an_error_at_the_end_points_behind_the_last_line():
    with pytest.raises(yaml_nodes.YamlError) as caught:
        yaml_io.load_text("a: [1, 2\n\n")

    assert str(caught.value).endswith("\n  a: [1, 2\n          ^")


def test_equal_words_of_different_kinds_are_different_keys():
    assert yaml_io.load_text("1: a\n'1': b\n") == {1: "a", "1": "b"}


def test_merge_keys_take_over_keys_and_own_ones_win_as_in_yaml_1_1(tmp_path):
    text = """
a: &a {x: 1, y: 2}
b: &b {<<: *a, y: 3, z: {w: 4}}
c:
  y: 5
  <<: [*b, {<<: {x: 6, v: 7}, u: 8}]
d: {'<<': <<, other: [<<]}
e: {<<: [], f: 1}
"""
    (tmp_path / "a.yaml").write_text(text)
    content, lines = yaml_io.load_file_with_lines(str(tmp_path / "a.yaml"))
    assert content == yaml_io.load_text(text)
    assert content["b"] == {"x": 1, "y": 3, "z": {"w": 4}}
    assert content["c"] == {"x": 1, "y": 5, "z": {"w": 4}, "v": 7, "u": 8}
    assert content["d"] == {"<<": "<<", "other": ["<<"]}
    assert content["e"] == {"f": 1}
    merged = {name: content[name] for name in "abce"}
    assert merged == yaml.safe_load(text[: text.index("d:")] + text[text.index("e:") :])
    places = {"b.x": 2, "b.y": 3, "c.y": 5, "c.z.w": 3, "c.u": 6}
    assert {path: lines[path] for path in places} == places
    assert not [path for path in lines if "<<" in path and path != "d.<<"]
    assert yaml_io.load_text(yaml_io.dump(content)) == content


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {<<: 1}", "1:9: `<<` takes an alias of a mapping"),
        ("a: {<<: [1]}", "1:10: `<<` takes an alias of a mapping"),
        ("a: {<<: }", "`<<` takes an alias of a mapping"),
        ("a: {<<: {b: 1}, <<: {c: 1}}", "'<<' is given twice, first in line 1"),
        ("a: &a {b: {<<: *a}}", "an alias refers to what contains it"),
        ("a: &a {<<: *a}", "an alias refers to what contains it"),
        ("a: &a {<<: {<<: *a}}", "an alias refers to what contains it"),
        ("a: {<<: {b: 1, b: 2}}", "'b' is given twice"),
        ("a: {<<: {[1]: 1}}", "a name must be a word"),
    ],
)
def test_what_can_not_be_merged_is_refused_with_its_place(text, message):
    with pytest.raises(errors.ConfigError, match=re.escape(message)):
        yaml_io.load_text(text)


def test_aliases_may_be_used_but_not_multiply():
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
    )

    assert yaml_io.load_text("a: &x [1]\nb: *x\n") == {"a": [1], "b": [1]}
    with pytest.raises(errors.ConfigError, match="more than 100,000 values, with aliases"):
        yaml_io.load_text(bomb)


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "{a: " * 100_000, "- " * 10_000, "? " * 10_000, "a: " + "[" * 99 + "]" * 99],
)
def test_brackets_end_in_an_error_with_the_line_and_not_in_the_end_of_the_process(text):
    with pytest.raises(errors.ConfigError, match=r"^<string>:1:\d+: more than 40 lists and map"):
        yaml_io.load_text(text)


def test_aliases_may_not_be_nested_deeper_than_lists_may():
    chain = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 60))

    with pytest.raises(errors.ConfigError, match=r":40:\d+: more than 40 lists"):
        yaml_io.load_text(chain)


def test_what_is_as_deep_as_may_be_can_be_read_written_and_held_by_a_config():
    text = "a: " + "[" * 39 + "1" + "]" * 39 + "\n"
    deep = "\n".join(" " * level + "a:" for level in range(40)) + " 1\n"

    assert yaml_io.load_text(yaml_io.dump(yaml_io.load_text(text))) == yaml_io.load_text(text)
    assert base_config.Config(yaml_io.load_text(deep)).as_dict() == yaml_io.load_text(deep)


def test_long_texts_and_long_names_are_refused_with_the_place():
    with pytest.raises(errors.ConfigError, match="got 1,000,001 characters"):
        yaml_io.load_text("a" * 1_000_001)
    with pytest.raises(errors.ConfigError, match=":1:3: a name has 5,000 characters") as caught:
        yaml_io.load_text('? "' + "a" * 5000 + '"')
    assert len(str(caught.value)) < 500
    name = "n" * 200
    inner = "&x {" + ", ".join(f"{name[:190]}{n}: 1" for n in range(999)) + "}"
    with pytest.raises(errors.ConfigError, match="too long and too many"):
        yaml_io.load_text(f"{name}: {inner}\nb: [" + ", ".join(["*x"] * 49) + "]")


@pytest.mark.parametrize("digits", ["1" * 5000, str(2**63), hex(2**64), "-" + "9" * 19])
def test_integers_beyond_64_bits_are_refused(digits):
    with pytest.raises(errors.ConfigError, match=r":2:4: .* beyond the 64 bits"):
        yaml_io.load_text(f"# yes\na: {digits}")


def test_numbers_beyond_the_largest_float_are_no_infinity():
    assert yaml_io.load_text("[1e308, .inf]") == [1e308, math.inf]
    with pytest.raises(errors.ConfigError, match="'1e309' is beyond the largest number"):
        yaml_io.load_text("[1e309]")


def test_empty_text_is_none():
    assert yaml_io.load_text("# nothing\n") is None


def test_the_word_none_is_null_only_on_request():
    text = "[None, 'None', null, {a: None}]"

    assert yaml_io.load_text(text) == ["None", "None", None, {"a": "None"}]
    assert yaml_io.load_text(text, is_none_null=True) == [None, "None", None, {"a": None}]


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize("value", [Colour.RED, b"bytes", {1, 2}, object()])
def test_only_plain_data_is_written(value):
    with pytest.raises(errors.ConfigError, match="expected plain data to write as YAML"):
        yaml_io.dump({"a": [value]})


def test_written_yaml_is_easy_to_read():
    text = yaml_io.dump({"b": [1, 2], "a": {"rate": 1e-09, "name": "größe"}, "c": [{"d": (1,)}]})

    assert text == "b: [1, 2]\na:\n  rate: 1.0e-09\n  name: größe\nc:\n- d: [1]\n"


def test_every_scalar_and_list_of_scalars_stands_on_one_line():
    values = {"a": "word " * 100, "b": "one\ntwo\u2028three", "c": list(range(100)), "d": 1}

    assert [line[:2] for line in yaml_io.dump(values).splitlines()] == ["a:", "b:", "c:", "d:"]


def _draw(chooser: random.Random, depth: int):
    """Returns a random tree of scalars that are hard to write."""
    kind = chooser.randrange(8 if depth else 5)
    if kind == 0:
        return chooser.choice([None, True, False, chooser.randrange(-(10**12), 10**12)])
    if kind == 1:
        return chooser.uniform(-1, 1) * 10.0 ** chooser.randrange(-30, 30)
    if kind in (2, 3, 4):
        letters = "aeEyNx01._-+:,#'\"[]{}&*!|>%@`~?=< \n\t\\\u00e9\u2028\x85\U0001f600\x07"
        return "".join(chooser.choices(letters, k=chooser.randrange(9)))
    if kind == 5:
        return {_draw_name(chooser): _draw(chooser, depth - 1) for _ in range(3)}
    return [_draw(chooser, depth - 1) for _ in range(chooser.randrange(4))]


def _draw_name(chooser: random.Random):
    return "".join(chooser.choices("abnoyY~1:-? #", k=chooser.randrange(1, 7)))


@pytest.mark.parametrize("seed", range(20))
def test_random_trees_read_back_equal_under_yaml_1_1_and_1_2(seed):
    chooser = random.Random(seed)
    trees = {f"tree{index}": _draw(chooser, 3) for index in range(60)}

    text = yaml_io.dump(trees)

    assert yaml_io.load_text(text) == trees
    assert yaml.safe_load(text) == trees
