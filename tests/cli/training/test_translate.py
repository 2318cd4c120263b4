"""The model is a stand-in that spells words backwards: what counts is the way of the lines."""

import io
import json
import sys

import pytest

from quintain.cli import main
from quintain.serving import translator


class Backwards:
    """Translates by spelling backwards."""

    def __init__(self):
        self.windows = []
        self.options = []

    def choose_max_source_length(self, wanted=None):
        return 1000 if wanted is None else wanted

    def count_tokens(self, sentences, *, is_target=False):
        return [len(text.split()) + 1 for text in sentences]

    def translate_with_scores(self, sentences, *, prefixes, num_outputs=1, **options):
        self.windows.append(list(sentences))
        self.options.append(options)
        prefixes = prefixes or [""] * len(sentences)
        return [
            [translator.Translation(start + text[::-1] + "!" * way, -0.5 - way)
             for way in range(num_outputs)]
            for start, text in zip(prefixes, sentences, strict=True)
        ]  # fmt: skip


@pytest.fixture
def model(monkeypatch):
    model = Backwards()
    monkeypatch.setattr(translator.Translator, "load", classmethod(lambda *args, **kwargs: model))
    return model


@pytest.fixture
def run(model, monkeypatch, capfd):
    def call(*arguments, lines=None):
        if lines is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
        code = main.run(["translate", "--model-dir=runs/x", *arguments])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return call


def test_arguments_are_translated_in_order(run):
    assert run("abc", "de")[:2] == (0, "cba\ned\n")


def test_lines_keep_their_order_and_empty_ones_stay(run, model):
    code, out, _ = run("--window=2", lines=b"abc\n\nde\nfgh\nxy")

    assert code == 0
    assert out == "cba\n\ned\nhgf\nyx\n"
    assert model.windows == [["abc", ""], ["de", "fgh"], ["xy"]]


BAD = b"abc\n\xff\nde\none two three four\nxy\n"


def test_without_skipping_the_lines_before_a_bad_one_are_written(run):
    code, out, err = run(lines=BAD)

    assert code != 0
    assert out == "cba\n"
    assert "line 2: not UTF-8 at byte 0" in err
    assert "1 lines before it" in err
    assert "--skip-bad" in err


def test_a_line_of_too_many_tokens_is_bad(run):
    code, out, err = run("--max-source-length=4", lines=b"abc\none two three four\nxy\n")

    assert code != 0
    assert out == "cba\n"
    assert "line 2: has 5 tokens, expected at most 4" in err


def test_skipped_lines_are_empty_and_reported_with_their_numbers(run):
    code, out, err = run("--max-source-length=4", "--skip-bad", lines=BAD)

    assert code == 0
    assert out == "cba\n!\n".replace("!", "") + "ed\n\nyx\n"
    assert "line 2: not UTF-8 at byte 0; skipped." in err
    assert "line 4: has 5 tokens, expected at most 4; skipped." in err
    assert "2 of 5 lines were skipped" in err


def test_several_translations_start_with_the_number_of_their_line(run):
    _, out, _ = run("--n-best=2", "--with-scores", "ab", "c")

    assert out == "1\t-0.5000\tba\n1\t-1.5000\tba!\n2\t-0.5000\tc\n2\t-1.5000\tc!\n"


def test_json_says_everything(run):
    _, out, _ = run("--json", "--skip-bad", "--n-best=2", lines="ü\n".encode() + b"\xff\n")

    first, second = (json.loads(line) for line in out.splitlines())
    assert first == {
        "line": 1,
        "source": "ü",
        "translations": [{"text": "ü", "score": -0.5}, {"text": "ü!", "score": -1.5}],
    }
    assert second == {"line": 2, "error": "not UTF-8 at byte 0", "translations": []}


def test_json_has_no_infinities(run, model, monkeypatch):
    lost = [[translator.Translation("", float("-inf"))]]
    monkeypatch.setattr(model, "translate_with_scores", lambda *args, **kwargs: lost)

    _, out, _ = run("--json", "ab")

    assert json.loads(out)["translations"] == [{"text": "", "score": None}]


def test_an_argument_that_is_not_utf_8_is_bad(run):
    code, out, err = run("ab", "c\udcff")

    assert (code, out) == (2, "ba\n")
    assert "line 2: not UTF-8 at character 1" in err


def test_a_translation_is_one_line_whatever_it_holds(run):
    _, out, _ = run(lines="a\u2028b\x0bc\n".encode())

    assert out == "c b a\n"


def test_options_reach_the_search(run, model):
    code, out, _ = run(
        "--prefix=So ", "--beam-size=3", "--alpha=0.2", "--min-length=2", "--seed=4",
        "--no-repeat-ngram-size=3", "--top-k=5", "--batch-size=7", "--precision=bfloat16", "ab",
    )  # fmt: skip

    assert (code, out) == (0, "So ba\n")
    (options,) = model.options
    assert options == {
        "alpha": 0.2,
        "batch_size": 7,
        "beam_size": 3,
        "max_source_length": 1000,
        "min_length": 2,
        "no_repeat_ngram_size": 3,
        "precision": "bfloat16",
        "sampling_temperature": 1.0,
        "seed": 4,
        "top_k": 5,
    }


def test_lines_may_have_prefixes_of_their_own(run):
    lines = b"ab\tSo \ncd\n\nef\tNo, \n"

    assert run("--prefix-column", lines=lines)[:2] == (0, "So ba\ndc\n\nNo, fe\n")
    first = json.loads(run("--prefix-column", "--json", lines=lines)[1].splitlines()[0])
    assert first == {
        "line": 1,
        "source": "ab",
        "prefix": "So ",
        "translations": [{"text": "So ba", "score": -0.5}],
    }


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"a\tb\tc", "has 3 columns, expected a text and a prefix"),
        (b"a\tone two three four", "has 5 tokens, expected at most 4"),
    ],
)
def test_a_line_with_a_wrong_prefix_is_bad(run, line, problem):
    code, out, err = run(
        "--prefix-column", "--skip-bad", "--max-source-length=4", lines=b"ab\n" + line + b"\ncd\n"
    )

    assert (code, out) == (0, "ba\n\ndc\n")
    assert f"line 2: {problem}; skipped." in err


def test_prefixes_come_one_way(run):
    code, _, err = run("--prefix-column", "--prefix=So", "ab")

    assert code == 2
    assert "--prefix: got 'So' beside --prefix-column" in err


def test_progress_is_shown_where_only_the_errors_go_to_a_terminal(run, monkeypatch):
    monkeypatch.setattr("quintain.cli.display.line_progress._PROGRESS_SECS", 0.0)
    assert "lines/s" not in run("ab")[2]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    _, out, err = run("ab", "cd")

    assert out == "ba\ndc\n"
    assert "2 lines" in err
    assert "lines/s" in err
