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
            "pr_exact_ap": 100 * (1 / 4 + 2 / 5) / 3,
            "pr_f1_ap": 100 * (1 / 3 * 2 / 3 + 5 / 12 + 8 / 15) / 3,
            "pr_oracle_ap": 100 * (1 / 2 + 2 / 4 + 3 / 5) / 3,
        }
    )


def test_questions_of_equal_odds_are_one_point_of_the_curve():
    answers = {"a": ["x"], "b": ["x y"], "c": [], "d": ["z"]}
    predictions = {"a": "x", "b": "x", "c": "x", "d": "w"}

    together = answer_scores.score_with_no_answers(
        answers, predictions, dict.fromkeys(answers, 0.5)
    )
    none = answer_scores.score_with_no_answers({"c": []}, {"c": "x"}, {"c": 0.5})

    found = {name: value for name, value in together.items() if name.startswith("pr_")}
    assert found == pytest.approx(
        {
            "pr_exact_ap": 100 * 1 / 4 * 1 / 3,
            "pr_f1_ap": 100 * (5 / 3) / 4 * (5 / 3) / 3,
            "pr_oracle_ap": 100 * 3 / 4,
        }
    )
    assert not any(name.startswith("pr_") for name in none)


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
