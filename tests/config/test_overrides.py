import math

import pytest

from quintain import errors
from quintain.config import overrides


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b=1,c=[1,2],d='x, y'", {"a": {"b": 1}, "c": [1, 2], "d": "x, y"}),
        ("e[0]=1,e[1]=2", {"e": [1, 2]}),
        ("e[0].x=1,e[1].x=2", {"e": [{"x": 1}, {"x": 2}]}),
        ("a=off", {"a": "off"}),
        ("a=None,b=null,c=~,d=", {"a": None, "b": None, "c": None, "d": None}),
        ("a=True,b=false", {"a": True, "b": False}),
        ("a=2024-01-01", {"a": "2024-01-01"}),
        (" a = 1 , b=2 ", {"a": 1, "b": 2}),
        ("a=1e-3,b=.5", {"a": 0.001, "b": 0.5}),
        ("a=gs://x/y:z,b=/tmp/it's,c=x=y", {"a": "gs://x/y:z", "b": "/tmp/it's", "c": "x=y"}),
        ("a=1,a=2", {"a": 2}),
        ("a={x: 1, y: [None, b]}", {"a": {"x": 1, "y": [None, "b"]}}),
        ("{a: {b: 1}}", {"a": {"b": 1}}),
        ('{"a": {"b": 1}}', {"a": {"b": 1}}),
        ("a.b=1,a.c=2", {"a": {"b": 1, "c": 2}}),
        ("a=1,", {"a": 1}),
        ("a=-3,b=+.5,c=1.,d=0x1F,e=0o17", {"a": -3, "b": 0.5, "c": 1.0, "d": 31, "e": 15}),
        ("a=.inf,b=nan,c=NONE", {"a": math.inf, "b": "nan", "c": "NONE"}),
        ("a=[None, 'None'],b='None'", {"a": [None, "None"], "b": "None"}),
        ("{a: None, b: 'None'}", {"a": None, "b": "None"}),
        ("d='it''s, ok',e=1", {"d": "it's, ok", "e": 1}),
        (r'd="a\", b",e=1', {"d": 'a", b', "e": 1}),
        ("a=don't,b=can't", {"a": "don't", "b": "can't"}),
        ("a=[ 'x]', \"y,\" ],b={k: 'v}'}", {"a": ["x]", "y,"], "b": {"k": "v}"}}),
        ("a=[[1, 2], [3]]", {"a": [[1, 2], [3]]}),
        ("a=f(1,2),b=3", {"a": "f(1,2)", "b": 3}),
        ("a=*x,b=&y,c=!z,d=%q,e=#f", {"a": "*x", "b": "&y", "c": "!z", "d": "%q", "e": "#f"}),
        ("a=12:30,b=[off, 2020-01-01]", {"a": "12:30", "b": ["off", "2020-01-01"]}),
        ("a=C:\\x,b=http://h:80/?q=1&r=2", {"a": "C:\\x", "b": "http://h:80/?q=1&r=2"}),
        ("a.y=2,a={x: 1}", {"a": {"y": 2, "x": 1}}),
        ("a={x: 1},a.x=2", {"a": {"x": 2}}),
        ("a.b=1,a=None", {"a": None}),
        ("a=[1, 2],a[1]=5", {"a": [1, 5]}),
        ("e[1]=2,e[0]=1", {"e": [1, 2]}),
        ("e[0][0]=1,e[0][1]=2", {"e": [[1, 2]]}),
        ("a={'[0]': 1}", {"a": {"[0]": 1}}),
        ("\n a=1,\n b=2\n", {"a": 1, "b": 2}),
    ],
)
def test_overrides_become_nested_data(text, expected):
    assert overrides.parse_overrides(text) == expected


def test_a_yaml_file_may_be_named(tmp_path):
    path = tmp_path / "o=1.yaml"
    path.write_text("a: {b: 2}\n")

    assert overrides.parse_overrides(f" {path} ") == {"a": {"b": 2}}


def test_a_named_file_that_is_missing_is_an_error():
    with pytest.raises(errors.ConfigError, match=r"none\.json: can't be read"):
        overrides.parse_overrides("none.json")


def test_a_value_may_end_like_a_file():
    assert overrides.parse_overrides("task.path=a.yaml") == {"task": {"path": "a.yaml"}}


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("", "expected `path=value`, got ''", 0),
        ("a.b", "expected `path=value`, got 'a.b'", 0),
        ("a=1, b", "expected `path=value`, got 'b'", 5),
        ("a=1,,b=2", "expected `path=value`, got ''", 4),
        ("1a=2", "'1a' is no path", 0),
        ("a=1, b-c=2", "'b-c' is no path", 5),
        ("=1", "'' is no path", 0),
        ("a[-1]=1", "'a[-1]' is no path", 0),
        ("a=[1,2", "']' is missing", 2),
        ("a=[1,2)", "']' is missing", 2),
        ("a=[1,2]]", "not YAML", 7),
        ("x=1, a='x", "the quote ' is not closed", 7),
        ('a=["x, 1]', 'the quote " is not closed', 3),
        ("a='x' y", "not YAML", 6),
        ("e[0]=1, e[2]=2", "leave a gap, e[1] is not given", 8),
        ("a.e[1]=1", "leave a gap, a.e[0] is not given", 0),
        ("b=1, a={x: 1, x: 2}", "'x' is given twice", 14),
        ("{a: 1, a: 2}", "'a' is given twice", 7),
        ("{a: 1}, b=2", "not YAML", 6),
        ("a=[1, !!set {x}]", "the tag !!set is not supported", 6),
    ],
)
def test_a_malformed_override_shows_the_place(text, message, column):
    with pytest.raises(errors.ConfigError) as caught:
        overrides.parse_overrides(text)

    first, shown, caret = str(caught.value).split("\n")
    assert first.startswith("override: ")
    assert message in first
    assert shown == f"  {text}"
    assert caret == f"  {' ' * column}^"


def test_only_the_line_of_the_error_is_shown():
    with pytest.raises(errors.ConfigError) as caught:
        overrides.parse_overrides("a=1,\n b\n")

    assert str(caught.value).endswith("\n   b\n   ^")


def test_an_assignment_takes_everything_after_the_first_sign():
    assert overrides.parse_assignment("a.b=x=1,y=2") == {"a": {"b": "x=1,y=2"}}
    assert overrides.parse_assignment("a=[1, 2]") == {"a": [1, 2]}
    assert overrides.parse_assignment(" a.b = it's, [fine ") == {"a": {"b": "it's, [fine"}}
    assert overrides.parse_assignment("a=''") == {"a": ""}
    assert overrides.parse_assignment("a=null") == {"a": None}
    with pytest.raises(errors.ConfigError, match="a value is missing; \"a=''\" is an empty text"):
        overrides.parse_assignment("a= ")


@pytest.mark.parametrize("text", ["a.b", "a b=1", "a=[1", "a='x"])
def test_a_malformed_assignment_is_an_error(text):
    with pytest.raises(errors.ConfigError, match="override: "):
        overrides.parse_assignment(text)


def test_mappings_are_merged_and_neither_is_changed():
    base = {"a": {"b": 1, "c": {"d": 2}}, "e": [1]}
    other = {"a": {"c": {"f": 3}}, "e": [2, 3], "g": None}

    merged = overrides.merge(base, other)

    assert merged == {"a": {"b": 1, "c": {"d": 2, "f": 3}}, "e": [2, 3], "g": None}
    assert base == {"a": {"b": 1, "c": {"d": 2}}, "e": [1]}
    assert other == {"a": {"c": {"f": 3}}, "e": [2, 3], "g": None}


def test_a_mapping_replaces_a_scalar_and_a_scalar_a_mapping():
    assert overrides.merge({"a": 1, "b": {"c": 2}}, {"a": {"d": 3}, "b": None}) == {
        "a": {"d": 3},
        "b": None,
    }


@pytest.mark.parametrize(
    "path", [f"a[{'1' * 5000}]", "a" + ".a" * 5000, "a" * 5000, "a" + "[0]" * 99]
)
def test_paths_beyond_what_a_file_could_hold_are_refused(path):
    with pytest.raises(errors.ConfigError, match="override: ") as caught:
        overrides.parse_overrides(f"{path}=1")

    assert len(str(caught.value)) < 800


def test_brackets_in_an_override_end_in_an_error():
    with pytest.raises(errors.ConfigError, match="more than 40 lists"):
        overrides.parse_overrides("a=" + "[" * 5000 + "]" * 5000)
