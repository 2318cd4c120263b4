import pytest

from quintain.nlp.metrics import entity_scores


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["B-PER", "I-PER", "O", "B-LOC"], [("PER", 0, 2), ("LOC", 3, 4)]),
        (["O", "I-PER", "I-PER"], [("PER", 1, 3)]),
        (["B-PER", "I-LOC", "I-LOC"], [("PER", 0, 1), ("LOC", 1, 3)]),
        (["B-PER", "B-PER"], [("PER", 0, 1), ("PER", 1, 2)]),
        (["B-PER", "E-PER", "S-LOC", "I-LOC"], [("PER", 0, 2), ("LOC", 2, 3), ("LOC", 3, 4)]),
        (["B", "I", "O"], [("_", 0, 2)]),
        (["B-A-B", "I-A-B"], [("A-B", 0, 2)]),
        ([], []),
    ],
)
def test_entities_are_those_of_conlleval(labels, expected):
    assert [tuple(one) for one in entity_scores.find_entities(labels)] == expected


def test_scores_are_those_that_seqeval_publishes():
    right = [["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    found = [["O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]

    scores = entity_scores.score(right, found)

    # The example of its README.
    assert scores == {"f1": 0.5, "precision": 0.5, "recall": 0.5, "accuracy": 0.8}


def test_sentences_without_entities_score_0():
    scores = entity_scores.score([["O"]], [["O"]])

    assert scores == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "accuracy": 1.0}
