import gzip

import numpy as np
import pytest

from quintain import errors
from quintain.nlp.data.labelled_tokens import tagged_sentences, token_examples

SPECIAL = token_examples.SpecialIds(cls=2, sep=3, unknown=1)


def cut_letters(words):
    return [
        token_examples.Tokens([ord(one) for one in word], list(range(len(word))), [])
        for word in words
    ]


def test_columns_and_json_lines_give_the_same_sentences(tmp_path):
    columns = tmp_path / "a ä.conll.gz"
    columns.write_bytes(
        gzip.compress("-DOCSTART- -X- O\n\nAnna NNP B-PER\r\ngeht\tV\tO\n\n\nÖlde\tB-LOC".encode())
    )
    lines = tmp_path / "b.jsonl"
    lines.write_text(
        '{"words": ["Anna", "geht"], "labels": ["B-PER", "O"]}\n'
        '\n{"words": ["Ölde"], "labels": ["B-LOC"], "id": 7}\n'
    )

    found = list(tagged_sentences.read([str(columns)]))
    others = list(tagged_sentences.read([str(lines)]))

    assert [(one.words, one.labels) for one in found] == [
        (["Anna", "geht"], ["B-PER", "O"]),
        (["Ölde"], ["B-LOC"]),
    ]
    assert [(one.words, one.labels) for one in others] == [(one.words, one.labels) for one in found]
    assert [one.where for one in found] == [f"{columns}:3", f"{columns}:7"]
    assert tagged_sentences.find_labels(found) == ["O", "B-LOC", "B-PER"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.tsv", "Anna\tB-PER\nalone\n", "a.tsv:2: got 'alone', expected a word and its label"),
        ("a.tsv", "Anna\tB-PER\n\tO\n", "a.tsv:2: got '\\tO', expected a word"),
        ("a.tsv", "\n \n", "a.tsv: no sentences, the file is empty"),
        ("a.jsonl", "[1]\n", "a.jsonl:1: got '[1]', expected an object"),
        ("a.jsonl", '{"words": ["a"], "labels": []}', "a.jsonl:1: got"),
        ("a.jsonl", '{"words": ["a"], "labels": [1]}', "a.jsonl:1: got"),
        ("a.jsonl", "\n{", "a.jsonl:2: got '{', expected an object"),
    ],
)
def test_bad_files_are_errors_with_their_lines(tmp_path, name, text, words):
    path = tmp_path / name
    path.write_text(text)

    with pytest.raises(errors.DataError) as caught:
        list(tagged_sentences.read([str(path)]))

    assert words in str(caught.value)


def test_an_unknown_label_is_an_error_with_its_sentence():
    sentence = tagged_sentences.TaggedSentence(["Anna"], ["B-PRE"], "a.tsv:3")

    with pytest.raises(errors.DataError, match=r"a.tsv:3: .*'Anna' as 'B-PRE'.*mean 'B-PER'\?"):
        tagged_sentences.to_ids(sentence, ["O", "B-PER"])


def test_the_first_token_of_a_word_has_its_label_and_long_sentences_are_cut_between_words():
    sentences = [(["ab", "c", "de", "fghij", ""], [1, 2, 0, 1, 2]), (["a"], [0])]

    found = list(tagged_sentences.encode(sentences, cut_letters, SPECIAL, 6))

    assert [one["input_word_ids"].tolist() for one in found] == [
        [2, 97, 98, 99, 3, 0],
        [2, 100, 101, 1, 1, 3],  # Five letters are too many, and none too few.
        [2, 97, 3, 0, 0, 0],
    ]
    assert [one["label_ids"].tolist() for one in found] == [
        [-1, 1, -1, 2, -1, -1],
        [-1, 0, -1, 1, 2, -1],
        [-1, 0, -1, -1, -1, -1],
    ]
    assert [one["input_mask"].sum() for one in found] == [5, 6, 3]
    assert not np.any([one["input_type_ids"] for one in found])
    ids = [(int(one["sentence_id"][0]), int(one["sub_sentence_id"][0])) for one in found]
    assert ids == [(0, 0), (0, 1), (1, 0)]
