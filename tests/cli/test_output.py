import io
import operator
import sys

import pytest

from quintain.cli import output

COLUMNS = (
    output.Column("a_b", lambda row: row["a"]),
    output.Column("text", lambda row: row["text"], can_shrink=True),
)


def test_a_table_aligns_numbers_right_and_text_left():
    rows = [{"a": 1, "text": "x"}, {"a": 100, "text": "a\nb"}]

    assert output.to_table(rows, COLUMNS, width=80).splitlines() == [
        "A B  TEXT",
        "  1  x",
        "100  a b",
    ]


def test_a_table_shrinks_what_may_be_cut_to_the_width():
    rows = [{"a": 1, "text": "x" * 200}]

    lines = output.to_table(rows, COLUMNS, width=40).splitlines()

    assert max(map(len, lines)) == 40
    assert lines[1].endswith("x…")


def test_a_narrow_terminal_drops_the_last_columns_and_a_pipe_none(monkeypatch):
    columns = [output.Column(name, operator.itemgetter(name)) for name in ("id", "state", "note")]
    rows = [{"id": 1, "state": "COMPLETED", "note": "x" * 120}]

    assert output.to_table(rows, columns, width=20).split() == ["ID", "STATE", "1", "COMPLETED"]
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys, "__stdout__", io.StringIO())
    assert "x" * 120 in output.to_table(rows, columns)


def test_csv_is_complete_and_quotes():
    rows = [
        {"a": float("nan"), "text": 'x,"y"\nz'},
        {"a": None, "text": {"n": [1]}},
        {"a": -1, "text": "=1+1"},
    ]

    assert output.to_csv(rows, COLUMNS) == (
        'a_b,text\nNaN,"x,""y""\nz"\n,"{""n"": [1]}"\n-1,\'=1+1\n'
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("inf"), "inf"),
        (1e-7, "1e-07"),
        (True, "yes"),
        ([1, 2.5], "1, 2.5"),
        ({"a": {"b": 1}, "c": [1, 2]}, "a=(b=1) c=[1, 2]"),
    ],
)
def test_values_are_short(value, text):
    assert output.format_value(value) == text
