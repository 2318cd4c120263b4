import types

import numpy as np

from quintain.nlp.data.masked import disk_shuffle, mlm_examples

VOCABULARY = types.SimpleNamespace(cls_id=2, sep_id=3)


def make(group, place, length=6):
    ids = np.arange(length, dtype=np.int32) + 100 * (place + 1)
    return disk_shuffle.Entry(group, place, ids)


def draw_all(neighbours, entry):
    """Returns the first tokens of neighbours that come up in many draws."""
    generator = np.random.default_rng(0)
    found = [neighbours.draw(entry, generator) for _ in range(100)]
    return {None if ids is None else int(ids[0]) for ids in found}


def test_a_neighbour_is_any_other_sequence_of_the_language():
    neighbours = mlm_examples.Neighbours()
    entries = [make(0, 0), make(0, 1), make(0, 2), make(1, 0), make(0, 1)]

    neighbours.enter(entries)

    assert draw_all(neighbours, entries[0]) == {200, 300}
    assert draw_all(neighbours, entries[1]) == {100, 300}
    assert draw_all(neighbours, entries[2]) == {100, 200}
    assert draw_all(neighbours, entries[3]) == {None}


def test_a_language_that_is_alone_in_a_bucket_keeps_a_neighbour_of_before():
    neighbours = mlm_examples.Neighbours()

    neighbours.enter([make(0, 0), make(0, 1), make(1, 0)])
    neighbours.enter([make(0, 0), make(1, 0), make(1, 5)])
    first = draw_all(neighbours, make(0, 0)), draw_all(neighbours, make(1, 0))
    neighbours.enter([make(1, 7)])
    neighbours.enter([make(0, 4)])

    assert first == ({200}, {600})
    assert draw_all(neighbours, make(0, 4)) in ({100}, {200})


def test_a_pair_has_all_tokens_of_its_sequence_or_a_part_of_another():
    neighbours = mlm_examples.Neighbours()
    entries = [make(0, 0), make(0, 1)]
    neighbours.enter(entries)
    generator = np.random.default_rng(0)

    pairs = [
        mlm_examples.build_pair(entries[0], neighbours, 12, VOCABULARY, generator)
        for _ in range(20)
    ]

    assert {int(pair["next_sentence_labels"][0]) for pair in pairs} == {0, 1}
    for pair in pairs:
        ids = pair["input_word_ids"]
        text = ids[(ids >= 100) & (pair["input_type_ids"] == 0)]
        second = ids[(ids >= 100) & (pair["input_type_ids"] == 1)]
        assert text.tolist() == list(range(100, 100 + len(text)))
        if pair["next_sentence_labels"][0]:
            assert set(second) <= set(range(200, 206))
        else:
            assert [*text, *second] == list(range(100, 106))
