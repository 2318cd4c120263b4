import pytest

from quintain.nlp.metrics import answer_scores

ANSWERS = {
    "a": ["the Norman Conquest", "Norman conquest of England"],
    "b": ["1066"],
    "c": ["Élise Müller's"],
    "d": ["nobody asked"],
}


def test_scores_are_those_of_the_script_of_squad_1():
    predictions = {"a": "Norman  conquest!", "b": "in 1066", "c": "élise müllers", "x": "more"}

    scores = answer_scores.score(ANSWERS, predictions)

    assert scores == pytest.approx({"exact_match": 2 / 4, "final_f1": (1 + 2 / 3 + 1 + 0) / 4})


def test_scores_are_those_of_the_script_of_squad_2():
    answers = {"a": ["x y"], "b": ["the"], "c": [], "d": [], "e": ["z"]}
    predictions = {"a": "x", "b": "", "c": "", "d": "w", "e": "z"}
    odds = {"a": -2.0, "b": 3.0, "c": 0.5, "d": -3.0, "e": 2.0}

    scores = answer_scores.score_with_no_answers(answers, predictions, odds)

    # "b" and "e" have odds above 1. Only an article is as good as no answer.
    assert scores == pytest.approx(
        {
            "exact": 20.0,
            "total": 5,
            "HasAns_exact": 0.0,
            "HasAns_total": 3,
            "NoAns_exact": 50.0,
            "NoAns_total": 2,
            "f1": 100 * (2 / 3 + 1) / 5,
            "HasAns_f1": 100 * (2 / 3) / 3,
            "NoAns_f1": 50.0,
            "final_exact": 60.0,
            "final_exact_thresh": 3.0,
            "final_f1": 100 * (2 - 1 + 2 / 3 + 1 + 1) / 5,
            "final_f1_thresh": 3.0,
        }
    )


@pytest.mark.parametrize(
    ("expected", "found", "value"),
    [
        ("", "", 1.0),
        ("the", "", 1.0),
        ("", "x", 0.0),
        ("a b b", "b b c", 1.0 * 4 / 5),
        ("é", "e", 0),
    ],
)
def test_overlap_counts_words_as_often_as_both_have_them(expected, found, value):
    assert answer_scores.overlap(expected, found) == pytest.approx(value)
