"""The model is a stand-in that measures texts: what counts is the way of the lines."""

import io
import json
import os
import subprocess
import sys

import pytest

from quintain.cli import main
from quintain.serving import classifier


class Measure:
    """Calls texts short or long."""

    def __init__(self, num_fields=1):
        self.num_fields = num_fields
        self.calls = []

    def classify(self, rows, batch_size):
        self.calls.append((len(rows), batch_size))
        return [self.predict("".join(row)) for row in rows]

    def predict(self, text):
        label, other = ("short", "long") if len(text) < 5 else ("long", "short")
        return classifier.Prediction(label, 0.75, {label: 0.75, other: 0.25})


class Numbers(Measure):
    """Gives the length of texts."""

    def predict(self, text):
        return classifier.Prediction(None, len(text) / 3, {})


@pytest.fixture
def run(monkeypatch, capfd):
    def call(*arguments, lines=None, model=None):
        monkeypatch.setattr(classifier.Classifier, "fits", lambda *_, **__: True)
        monkeypatch.setattr(
            classifier.Classifier, "load", classmethod(lambda *args, **kwargs: model or Measure())
        )
        if lines is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
        code = main.run(["predict", "--model-dir=runs/x", *arguments])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return call


BAD = b"abc\n\xff\nlonger\na\tb\n"


def test_arguments_are_predicted_in_order(run):
    assert run("abc", "longer")[:2] == (0, "short\t0.7500\nlong\t0.7500\n")


def test_lines_come_in_windows_and_batches_and_an_empty_one_is_a_text(run):
    model = Measure()

    code, out, _ = run(
        "--window=3", "--batch-size=2", lines=b"abc\n\nlonger\n" + b"x" * 100_000, model=model
    )

    assert code == 0
    assert [line[:5] for line in out.splitlines()] == ["short", "short", "long\t", "long\t"]
    assert model.calls == [(3, 2), (1, 2)]


def test_numbers_are_written_alone(run):
    assert run("abcd", model=Numbers())[1] == "1.33333\n"
    assert json.loads(run("--json", "abc", model=Numbers())[1]) == {"line": 1, "score": 1.0}


def test_without_skipping_the_lines_before_a_bad_one_are_written(run):
    code, out, err = run(lines=BAD)

    assert (code, out) == (2, "short\t0.7500\n")
    assert "line 2: not UTF-8 at byte 0. The 1 lines before it are predicted." in err
    assert "--skip-bad" in err


def test_skipped_lines_are_empty_and_reported_with_their_numbers(run):
    code, out, err = run("--skip-bad", "--window=2", lines=BAD)

    assert (code, out) == (0, "short\t0.7500\n\nlong\t0.7500\nshort\t0.7500\n")
    assert "line 2: not UTF-8 at byte 0; skipped." in err
    assert "1 of 4 lines were skipped; their predictions are empty." in err


def test_lines_of_pairs_have_two_fields(run):
    lines = b"a\tb\nabc\nabc\tabc\na\tb\tc\n"

    code, out, err = run("--skip-bad", lines=lines, model=Measure(num_fields=2))
    stopped = run(lines=lines, model=Measure(num_fields=2))

    assert (code, out) == (0, "short\t0.7500\n\nlong\t0.7500\n\n")
    assert "line 2: has 1 fields, expected 2 with tabs between; skipped." in err
    assert "line 4: has 3 fields" in err
    assert stopped[:2] == (2, "short\t0.7500\n")


def test_json_says_everything(run):
    _, out, _ = run("--json", "--skip-bad", lines=BAD)

    first, second, *_ = (json.loads(line) for line in out.splitlines())
    assert first == {
        "line": 1,
        "label": "short",
        "score": 0.75,
        "probabilities": {"short": 0.75, "long": 0.25},
    }
    assert second == {"line": 2, "error": "not UTF-8 at byte 0"}


def test_an_argument_that_is_not_utf_8_is_bad(run):
    code, out, err = run("ab", "c\udcff")

    assert (code, out) == (2, "short\t0.7500\n")
    assert "line 2: not UTF-8 at character 1" in err


def test_nothing_gives_nothing(run):
    assert run(lines=b"") == (0, "", "")


def test_progress_is_shown_where_only_the_errors_go_to_a_terminal(run, monkeypatch):
    monkeypatch.setattr("quintain.cli.display.line_progress._PROGRESS_SECS", 0.0)
    assert "lines/s" not in run("ab")[2]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    assert "2 lines" in run("ab", "cd")[2]


@pytest.mark.long("tests/cli/test_standard_streams.py shows it")
@pytest.mark.slow
@pytest.mark.e2e
def test_a_reader_that_has_enough_is_no_error(classifier_dir):
    command = (
        f"yes 'ein Haus' | head -n 20000 | {sys.executable} -m quintain.cli.main predict "
        f"--model-dir={classifier_dir} --window=100 | head -n 1"
    )

    result = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, env=os.environ
    )

    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.split("\t")[0] in {"de", "en", "fr"}
