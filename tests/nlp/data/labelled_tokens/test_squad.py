import json

import numpy as np
import pytest

from quintain import errors
from quintain.nlp.data.labelled_tokens import squad_features, squad_files, token_examples

SPECIAL = token_examples.SpecialIds(cls=2, sep=3, unknown=1)


def cut_letters(words):
    return [
        token_examples.Tokens(
            [ord(one) for one in word],
            list(range(len(word))),
            list(range(1, len(word) + 1)),
        )
        for word in words
    ]


def write(path, *entries, context="Ä house, built in (1895-1943)."):
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": context, "qas": entries}]}]}))
    return [str(path)]


def ask(start, text, **fields):
    answers = [{"answer_start": start, "text": text}]
    return {"id": "q1", "question": "When?", "answers": answers, **fields}


def test_questions_of_both_versions_are_read(tmp_path):
    nothing = {"id": "q2", "question": "Who?", "answers": [], "is_impossible": True}
    plausible = ask(2, "house", id="q3", is_impossible=True)
    paths = write(tmp_path / "ä b.json", ask(19, "1895"), nothing, plausible)

    found = squad_files.read(paths, is_training=True, has_null=True)

    assert [(one.qas_id, one.answers) for one in found] == [
        ("q1", [(19, "1895")]),
        ("q2", []),
        ("q3", []),
    ]
    with pytest.raises(errors.DataError, match=r"qas\[1\]: the question 'q2' has no answer"):
        squad_files.read(paths, is_training=True, has_null=False)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is not JSON"),
        ("[]", "the file has no list 'data'"),
        ('{"data": []}', "no questions, the file is empty"),
        ('{"data": [{"paragraphs": 3}]}', "data[0] has no list 'paragraphs'"),
        ('{"data": [{"paragraphs": [{"qas": [{}]}]}]}', "qas[0]: expected `context`, `id`"),
    ],
)
def test_other_json_is_an_error_with_its_place(tmp_path, content, words):
    (tmp_path / "a.json").write_text(content)

    with pytest.raises(errors.DataError) as caught:
        squad_files.read([str(tmp_path / "a.json")], is_training=False, has_null=False)

    assert f"{tmp_path}/a.json" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize("start", [0, -4, 18, 999])
def test_an_answer_outside_of_its_paragraph_is_an_error(tmp_path, start):
    paths = write(tmp_path / "a.json", ask(start, "1895"))

    with pytest.raises(errors.DataError, match=rf"'1895' to 'q1' is not at character {start} of"):
        squad_files.read(paths, is_training=False, has_null=False)


def test_windows_overlap_and_hold_the_tokens_of_the_answer():
    question = squad_files.Question("q", "w e", "abc (1895-99) d", [(5, "1895")])
    settings = squad_features.WindowSettings(seq_length=11, query_length=2, doc_stride=4)

    found = list(squad_features.encode([question], cut_letters, SPECIAL, settings))

    text = "abc(1895-99)d"
    parts = [text[0:6], text[4:10], text[8:13]]
    for window, part in zip(found, parts, strict=True):
        example = window.example
        ids = [2, ord("w"), ord("e"), 3, *map(ord, part), 3]
        assert example["input_word_ids"].tolist() == [*ids, *[0] * (11 - len(ids))]
        assert example["input_mask"].sum() == len(ids)
        assert example["input_type_ids"].tolist()[:5] == [0, 0, 0, 0, 1]
        assert (
            "".join(question.context[a:b] for a, b in zip(window.starts, window.ends, strict=True))
            == part
        )
    spans = [
        (int(one.example["start_positions"][0]), int(one.example["end_positions"][0]))
        for one in found
    ]
    assert spans == [(0, 0), (4, 7), (0, 0)]
    assert [int(one.example["is_impossible"][0]) for one in found] == [1, 0, 1]
    ids = [int(one.example["unique_ids"][0]) for one in found]
    assert ids == [1_000_000_000, 1_000_000_001, 1_000_000_002]
    # Of two windows that show a token, the one with more around it.
    assert [one.is_central for one in found] == [
        [True] * 5 + [False],
        [False, True, True, True, True, False],
        [False, True, True, True, True],
    ]


def rank(starts, ends, *, threshold=0.0, has_null=True, n_best=3, longest=3):
    question = squad_files.Question("q", "w", "ab cd")
    settings = squad_features.WindowSettings(seq_length=10, query_length=1, doc_stride=9)
    (window,) = squad_features.encode([question], cut_letters, SPECIAL, settings)
    ranking = squad_features.RankingSettings(n_best, longest, has_null, threshold)
    return squad_features.rank(question, [(window, np.array(starts), np.array(ends))], ranking)


def test_answers_are_ranked_and_none_is_given_above_the_threshold():
    #         CLS  w   SEP  a    b    c    d
    starts = [1.0, 9.0, 0.0, 5.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    ends = [2.0, 0.0, 0.0, 0.0, 3.0, 2.5, 4.0, 0.0, 0.0, 0.0]

    found = rank(starts, ends, n_best=4)

    # "ab cd" has the highest score, but more than three tokens.
    assert [(one.text, one.score) for one in found.answers] == [
        ("ab", 8.0),
        ("b cd", 8.0),
        ("ab c", 7.5),
        ("b", 7.0),
        ("", 3.0),
    ]
    assert (found.best, found.null_odds) == ("ab", 3.0 - 8.0)
    assert rank(starts, ends, threshold=-5.5).best == ""
    assert [one.text for one in rank(starts, ends, has_null=False, n_best=1).answers] == []
