import pytest

from quintain import errors
from quintain.cli import line_windows, text_lines


def mark_long(lines):
    return [
        line if len(line.text) < 5 else text_lines.Line(line.number, "", "is long")
        for line in lines
    ]


@pytest.fixture
def seen():
    return []


@pytest.fixture
def make(seen):
    def answer(lines):
        seen.append([line.text for line in lines])
        return [line.text.upper() for line in lines]

    def make(**options):
        defaults = {"window": 3, "is_skipping": False, "filler": "-"}
        words = {"verb": "shouted", "noun": "shouts"}
        return line_windows.LineWindows(answer, mark_long, **(defaults | words | options))

    return make


BAD = text_lines.Line(2, "", "is broken")


def test_windows_are_answered_in_order(make, seen):
    windows = make()

    found = [answer for _, answer in windows.run(text_lines.number("abcde"))]

    assert found == list("ABCDE")
    assert seen == [["a", "b", "c"], ["d", "e"]]


def test_a_bad_line_ends_its_window_at_once(make, seen):
    lines = iter([text_lines.Line(1, "a"), BAD, text_lines.Line(3, "c")])
    found = []

    with pytest.raises(errors.DataError, match=r"line 2: is broken\. The 1 lines before it are sh"):
        found.extend(line.number for line, _ in make().run(lines))

    assert (found, seen, next(lines).number) == ([1], [["a"]], 3)


def test_a_line_that_the_model_refuses_ends_everything_after_those_before(make, seen):
    found = []

    with pytest.raises(errors.DataError, match=r"line 2: is long.*--skip-bad"):
        found.extend(answer for _, answer in make().run(text_lines.number(["a", "long!", "c"])))

    assert (found, seen) == (["A"], [["a"]])


def test_lines_left_out_have_the_filler_and_are_counted(make, seen, capsys):
    windows = make(is_skipping=True)
    lines = [text_lines.Line(1, "a"), BAD, text_lines.Line(3, "long!"), text_lines.Line(4, "d")]

    found = [(line.number, answer) for line, answer in windows.run(lines)]
    windows.report()

    assert found == [(1, "A"), (2, "-"), (3, "-"), (4, "D")]
    assert seen == [["a"], ["d"]]
    assert capsys.readouterr().err.splitlines() == [
        "line 2: is broken; skipped.",
        "line 3: is long; skipped.",
        "2 of 4 lines were skipped; their shouts are empty.",
    ]


def test_a_window_without_a_good_line_asks_the_model_nothing(make, seen):
    windows = make(is_skipping=True, window=1)

    assert [answer for _, answer in windows.run([BAD])] == ["-"]
    assert list(windows.run([])) == []
    assert seen == []
