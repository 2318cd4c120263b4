import json
import logging

import pytest

from quintain import errors
from quintain.nlp.tasks import translation_report

_ODD_TEXTS = [
    "",
    "a\tb",
    "line\nbreak",
    "c:\\temp\\new",
    "\\\t\\\\n",
    "אבג \u2028 👩\u200d🚀",
    "\r",
]
_SCORES = translation_report.Scores({"sacrebleu_score": 12.5}, {"sacrebleu_signature": "nrefs:1"})


def _rows(texts):
    return [translation_report.Row(text, text.upper(), f"{text}!") for text in texts]


@pytest.mark.parametrize("text", _ODD_TEXTS)
def test_any_text_fits_a_cell_and_comes_back(text):
    cell = translation_report.escape(text)

    assert not set(cell) & set("\t\n\r")
    assert translation_report.unescape(cell) == text


def test_rows_are_read_as_they_were_written(tmp_path):
    path = translation_report.write(str(tmp_path / "new"), 7, _rows(_ODD_TEXTS), _SCORES)

    assert path == str(tmp_path / "new" / "step-7.tsv")
    assert translation_report.read(path) == _rows(_ODD_TEXTS)
    assert json.loads((tmp_path / "new" / "step-7.json").read_text()) == {
        "step": 7,
        "num_pairs": len(_ODD_TEXTS),
        "sacrebleu_score": 12.5,
        "sacrebleu_signature": "nrefs:1",
    }


def test_the_same_data_replaces_its_file_and_other_data_does_not(tmp_path):
    first = translation_report.write(str(tmp_path), 7, _rows(["a", "b"]), _SCORES)
    better = [translation_report.Row("a", "A", "A"), translation_report.Row("b", "B", "B")]
    second = translation_report.write(str(tmp_path), 7, better, _SCORES)
    other = translation_report.write(str(tmp_path), 7, _rows(["c"]), _SCORES)
    again = translation_report.write(str(tmp_path), 7, _rows(["c"]), _SCORES)

    assert (first, second) == (str(tmp_path / "step-7.tsv"),) * 2
    assert (other, again) == (str(tmp_path / "step-7.2.tsv"),) * 2
    assert translation_report.read(first) == better
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"step-7.tsv", "step-7.json", "step-7.2.tsv", "step-7.2.json"}


@pytest.mark.parametrize("text", ["", "a\tb\tc\n", "source\treference\thypothesis\na\tb\n"])
def test_another_file_is_an_error(tmp_path, text):
    path = tmp_path / "step-1.tsv"
    path.write_text(text)

    with pytest.raises(errors.DataError, match=r"step-1\.tsv"):
        translation_report.read(str(path))


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(errors.DataError, match="cannot be read"):
        translation_report.read(str(tmp_path / "step-1.tsv"))


@pytest.mark.parametrize(
    ("num_rows", "expected"), [(0, []), (1, [0]), (2, [0, 1]), (3, [0, 1, 2]), (100, [0, 33, 66])]
)
def test_shown_rows_are_spread_over_the_data(num_rows, expected):
    assert translation_report.choose_shown(num_rows) == expected


def test_shown_text_can_not_act_on_a_terminal_and_is_not_endless(caplog):
    row = translation_report.Row("a\x1b[2Jb\u202ec", "x" * 1000, "two\nlines")

    with caplog.at_level(logging.INFO, logger="quintain.samples"):
        translation_report.show(5, [row], _SCORES, "runs/a/translations/step-5.tsv")

    text = caplog.records[0].getMessage()
    assert text.startswith("Translations at step 5 (1 in runs/a/translations/step-5.tsv):\n")
    assert "a\ufffd[2Jb\ufffdc" in text
    assert f"{'x' * 300}...\n" in text
    assert "hypothesis  two\\nlines\n" in text
