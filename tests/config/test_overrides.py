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
    ],
)
def test_overrides_become_nested_data(text, expected):
    assert overrides.parse_overrides(text) == expected


def test_a_yaml_file_may_be_named(tmp_path):
    path = tmp_path / "o.yaml"
    path.write_text("a: {b: 2}\n")

    assert overrides.parse_overrides(str(path)) == {"a": {"b": 2}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.b", "expected `path=value`"),
        ("a=1,b", "expected `path=value`, got 'b'"),
        ("1a=2", "'1a' is no path"),
        ("a=[1,2", "']' is missing"),
        ("a='x", "a quote ' is not closed"),
        ("e[0]=1,e[2]=2", "leave a gap"),
        ("a={x: 1, x: 2}", "given twice"),
    ],
)
def test_a_malformed_override_shows_the_place(text, message):
    with pytest.raises(errors.ConfigError) as caught:
        overrides.parse_overrides(text)

    assert message in str(caught.value)
    assert text in str(caught.value)
    assert "^" in str(caught.value)


def test_an_assignment_takes_everything_after_the_first_sign():
    assert overrides.parse_assignment("a.b=x=1,y=2") == {"a": {"b": "x=1,y=2"}}
    assert overrides.parse_assignment("a=[1, 2]") == {"a": [1, 2]}
