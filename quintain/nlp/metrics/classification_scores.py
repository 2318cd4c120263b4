"""Scores of classifiers and regressors that need all predictions of an evaluation at once.

Closed forms in NumPy. A score that is 0 / 0 is 0: of a class that nobody predicted, of predictions
that are all the same.

Shapes:
    N  examples
    C  classes; 1 for a number
"""

import math

import numpy as np
import numpy.typing as npt

_Ints = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]


def score(metric_type: str, labels: npt.ArrayLike, predictions: npt.ArrayLike) -> dict[str, float]:
    """Returns the score of a name that `metric_type` of sentence prediction may have.

    Args:
        metric_type: `f1`, `matthews_corrcoef`, or another name for the mean of both correlations.
        labels: `[N]` class ids or numbers.
        predictions: `[N, C]` logits for `f1`, `[N, 1]` class ids or numbers for the others.

    Returns:
        The score under `metric_type`; the correlations `pearson` and `spearman` beside their mean.
    """
    if metric_type == "f1":
        logits = np.asarray(predictions)  # [N, C]
        found = np.argmax(logits, axis=1)  # [N]
        return {metric_type: f1(labels, found, num_classes=logits.shape[1])}
    if metric_type.startswith("matthews"):
        return {metric_type: matthews_corrcoef(labels, predictions)}
    correlations = {
        "pearson": pearson(labels, predictions),
        "spearman": spearman(labels, predictions),
    }
    return {metric_type: sum(correlations.values()) / 2.0, **correlations}


def f1(labels: npt.ArrayLike, predictions: npt.ArrayLike, *, num_classes: int = 2) -> float:
    """Returns the F1 score of class ids `[N]`, in `[0, 1]`: the mean of precision and recall.

    The mean is harmonic. Of two classes, the score is that of class 1. Of more, it is the mean over
    the classes that occur among labels or predictions ("macro").

    Source:
        van Rijsbergen, 1979, "Information Retrieval", chapter 7.

    Example:
        >>> round(f1([1, 1, 0, 0], [1, 0, 1, 0]), 3)
        0.5
    """
    truth, found = _to_classes(labels), _to_classes(predictions)
    classes = [1] if num_classes <= 2 else np.union1d(truth, found).tolist()
    scores = [
        _ratio(2.0 * np.sum((truth == name) & (found == name)), np.sum(truth == name) + count)
        for name in classes
        for count in [np.sum(found == name)]
    ]
    return float(np.mean(scores)) if scores else 0.0


def matthews_corrcoef(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> float:
    """Returns Matthews' correlation of class ids `[N]`, in `[-1, 1]`, for any classes.

    Source:
        Gorodkin, 2004, "Comparing two K-category assignments by a K-category correlation
        coefficient", which for two classes is Matthews, 1975.

    Example:
        >>> round(matthews_corrcoef([1, 1, 1, 0], [1, 0, 1, 1]), 4)
        -0.3333
    """
    truth, found = _to_classes(labels), _to_classes(predictions)
    classes = np.union1d(truth, found)
    num_true: _Floats = np.sum(truth[:, np.newaxis] == classes, axis=0, dtype=np.float64)
    num_found: _Floats = np.sum(found[:, np.newaxis] == classes, axis=0, dtype=np.float64)
    total, right = float(truth.size), float(np.sum(truth == found))
    covariance = right * total - float(num_true @ num_found)
    spread = (total**2 - float(num_found @ num_found)) * (total**2 - float(num_true @ num_true))
    return _ratio(covariance, math.sqrt(spread))


def pearson(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> float:
    """Returns Pearson's correlation of numbers `[N]`, in `[-1, 1]`.

    Example:
        >>> round(pearson([1.0, 2.0, 3.0], [1.0, 2.0, 4.0]), 4)
        0.982
    """
    x, y = _center(_to_floats(labels)), _center(_to_floats(predictions))
    correlation = _ratio(float(x @ y), float(np.linalg.norm(x) * np.linalg.norm(y)))
    return float(np.clip(correlation, -1.0, 1.0))


def spearman(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> float:
    """Returns Spearman's correlation, Pearson's of the ranks of numbers `[N]`, in `[-1, 1]`.

    Equal values share the mean of their ranks.

    Example:
        >>> round(spearman([1.0, 2.0, 3.0], [10.0, 20.0, 1000.0]), 6)
        1.0
    """
    return pearson(_rank(_to_floats(labels)), _rank(_to_floats(predictions)))


def _rank(values: _Floats) -> _Floats:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return ((2 * ends - counts + 1) / 2.0)[places.reshape(-1)]


def _center(values: _Floats) -> _Floats:
    if values.size == 0 or np.all(values == values[0]):
        return np.zeros_like(values)  # What rounding leaves of the mean is no spread.
    return values - values.mean()


def _ratio(numerator: float, denominator: float) -> float:
    return float(numerator / denominator) if denominator else 0.0


def _to_classes(values: npt.ArrayLike) -> _Ints:
    return np.asarray(values, np.int64).reshape(-1)


def _to_floats(values: npt.ArrayLike) -> _Floats:
    return np.asarray(values, np.float64).reshape(-1)
