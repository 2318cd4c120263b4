"""Average precision of detected objects, as COCO defines it: 101 recalls, objects of all sizes.

Shapes:
    D  detections of an image
    G  its objects
    T  thresholds of the intersection over union
"""

import dataclasses
from collections.abc import Sequence
from typing import Final

import numpy as np

MAX_DETECTIONS: Final = 100
"""Detections of an image that count, the surest ones."""

THRESHOLDS: Final = np.linspace(0.5, 0.95, 10)
_RECALLS: Final = np.linspace(0.0, 1.0, 101)


@dataclasses.dataclass(frozen=True)
class Example:
    """Detections and objects of an image; boxes are left, top, right and bottom."""

    boxes: np.ndarray
    """`[D, 4]`."""

    scores: np.ndarray
    """`[D]`."""

    classes: np.ndarray
    """`[D]`."""

    true_boxes: np.ndarray
    """`[G, 4]`."""

    true_classes: np.ndarray
    """`[G]`."""

    is_crowd: np.ndarray
    """`[G]`, whether a box is around many objects: what is found there is neither right nor
    wrong."""


def compute_average_precision(examples: Sequence[Example]) -> np.ndarray:
    """Returns the mean over classes that have objects, `[T]`; NaN if none has."""
    known = {int(label) for one in examples for label in one.true_classes[~one.is_crowd]}
    found = [_score_class(examples, label) for label in sorted(known)]
    return np.mean(found, axis=0) if found else np.full(len(THRESHOLDS), np.nan)


def _score_class(examples: Sequence[Example], label: int) -> np.ndarray:
    """Returns the average precision of a class, `[T]`."""
    scores, hits, counts = [], [], []
    num_objects = 0
    for one in examples:
        is_found, is_true = one.classes == label, one.true_classes == label
        order = np.argsort(-one.scores[is_found], kind="stable")[:MAX_DETECTIONS]
        crowd = one.is_crowd[is_true].astype(bool)
        overlaps = compute_overlaps(one.boxes[is_found][order], one.true_boxes[is_true], crowd)
        hit, count = _match(overlaps, crowd)
        scores.append(one.scores[is_found][order])
        hits.append(hit)
        counts.append(count)
        num_objects += int(np.sum(~crowd))
    order = np.argsort(-np.concatenate(scores), kind="stable")
    hit = np.concatenate(hits, axis=1)[:, order]  # [T, all D]
    miss = np.concatenate(counts, axis=1)[:, order] & ~hit
    right, wrong = np.cumsum(hit, axis=1), np.cumsum(miss, axis=1)
    precision = right / np.maximum(right + wrong, 1)
    precision = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    # Beyond the highest recall the precision is 0.
    precision = np.pad(precision, ((0, 0), (0, 1)))
    places = [np.searchsorted(recall, _RECALLS) for recall in right / num_objects]
    return np.mean(np.take_along_axis(precision, np.stack(places), axis=1), axis=1)


def _match(overlaps: np.ndarray, crowd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gives each detection, the surest first, the object that it overlaps most.

    Returns:
        Whether detections are right, and whether they count, `[T, D]`.
    """
    num_detections, num_objects = overlaps.shape
    right = np.zeros((len(THRESHOLDS), num_detections), bool)
    counts = np.ones_like(right)
    if not num_objects:
        return right, counts
    taken = np.zeros((len(THRESHOLDS), num_objects), bool)
    for place, overlap in enumerate(overlaps):
        is_near = overlap >= THRESHOLDS[:, np.newaxis]  # [T, G]
        free = is_near & ~taken & ~crowd
        right[:, place] = free.any(axis=1)
        counts[:, place] = right[:, place] | ~(is_near & crowd).any(axis=1)
        best = num_objects - 1 - np.argmax(np.where(free, overlap, -1.0)[:, ::-1], axis=1)
        rows = np.flatnonzero(right[:, place])
        taken[rows, best[rows]] = True
    return right, counts


def compute_overlaps(boxes: np.ndarray, true_boxes: np.ndarray, crowd: np.ndarray) -> np.ndarray:
    """Returns intersections over unions `[D, G]`; those with a crowd over the detection alone."""
    boxes, true_boxes = boxes.astype(np.float64)[:, np.newaxis], true_boxes.astype(np.float64)
    least = np.maximum(boxes[..., :2], true_boxes[..., :2])
    sides = np.maximum(np.minimum(boxes[..., 2:], true_boxes[..., 2:]) - least, 0.0)
    shared = np.prod(sides, axis=-1)
    area, true_area = (np.prod(one[..., 2:] - one[..., :2], axis=-1) for one in (boxes, true_boxes))
    union = np.where(crowd, area, area + true_area - shared)
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
