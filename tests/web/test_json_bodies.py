import pytest

from quintain import errors
from quintain.web import json_bodies


def test_what_json_says_is_returned():
    assert json_bodies.parse('{"a": [1, -2.5e3, "ä🙂", null, true]}'.encode()) == {
        "a": [1, -2500.0, "ä🙂", None, True]
    }
    assert json_bodies.parse(b"[9223372036854775807, -9223372036854775808]") == [
        2**63 - 1,
        -(2**63),
    ]
    deepest = json_bodies.MAX_DEPTH - 1
    assert json_bodies.parse(b"[" * deepest + b"1" + b"]" * deepest)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"[NaN]", "got NaN"),
        (b"[-Infinity]", "got -Infinity"),
        (b"[1e999]", "too large"),
        (b"1" * 5000, "integer that is too large"),
        (b"[9223372036854775808]", "integer that is too large"),
        (b'{"a": [-9223372036854775809]}', "integer that is too large"),
        (b'["\xff"]', "not UTF-8 at byte 2"),
        (b'["\\ud83d"]', "not valid Unicode"),
        (b'{"\\ud83d": 1}', "not valid Unicode"),
        (b"[" * 100 + b"]" * 100, "deeper than 64"),
        (b'{"a":' * 64 + b"1" + b"}" * 64, "deeper than 64"),
        (b"[" * 1_000_000, "deeper than 64"),
        (b'{"a":' * 300_000, "deeper than 64"),
    ],
)
def test_what_would_surprise_others_is_refused(data, words):
    with pytest.raises(errors.DataError, match=rf"^body: .*{words}"):
        json_bodies.parse(data)
