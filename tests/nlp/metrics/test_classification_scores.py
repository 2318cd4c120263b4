import numpy as np
import pytest
import scipy.stats
from sklearn import metrics as sklearn_metrics

from quintain.nlp.metrics import classification_scores as scores


def draw_classes(num_classes, seed, size=200):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, num_classes, size)
    is_right = generator.random(size) < 0.6
    return labels, np.where(is_right, labels, generator.integers(0, num_classes, size))


@pytest.mark.parametrize("num_classes", [2, 5])
def test_classification_scores_are_those_of_scikit_learn(num_classes):
    labels, predictions = draw_classes(num_classes, seed=num_classes)
    average = "binary" if num_classes == 2 else "macro"

    assert scores.f1(labels, predictions, num_classes=num_classes) == pytest.approx(
        sklearn_metrics.f1_score(labels, predictions, average=average), abs=1e-12
    )
    assert scores.matthews_corrcoef(labels, predictions) == pytest.approx(
        sklearn_metrics.matthews_corrcoef(labels, predictions), abs=1e-12
    )


def test_classes_that_do_not_occur_do_not_count_in_macro_f1():
    labels, predictions = np.array([0, 0, 3, 3]), np.array([0, 5, 3, 0])

    expected = sklearn_metrics.f1_score(labels, predictions, average="macro")

    assert scores.f1(labels, predictions, num_classes=9) == pytest.approx(expected, abs=1e-12)


def test_correlations_are_those_of_scipy_also_with_ties():
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 6, 100).astype(float)
    predictions = labels + generator.normal(0.0, 2.0, 100).round(0)

    assert scores.pearson(labels, predictions) == pytest.approx(
        scipy.stats.pearsonr(labels, predictions)[0], abs=1e-12
    )
    assert scores.spearman(labels, predictions) == pytest.approx(
        scipy.stats.spearmanr(labels, predictions)[0], abs=1e-12
    )


def test_what_would_be_zero_by_zero_is_zero():
    same = [0.1, 0.1, 0.1]

    assert scores.pearson([1.0, 2.0, 3.0], same) == 0.0
    assert scores.spearman(same, [1.0, 2.0, 3.0]) == 0.0
    assert scores.matthews_corrcoef([0, 1, 1], [1, 1, 1]) == 0.0
    assert scores.f1([0, 0], [0, 0]) == 0.0
