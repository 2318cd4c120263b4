import contextlib
import io

import numpy as np
import pytest

from quintain.hub.images import detection_scores


def build(found=(), true=(), crowd=()):
    """Builds an image of (box, score, class) and (box, class), and boxes around crowds."""
    true = [*true, *crowd]
    return detection_scores.Example(
        np.array([box for box, _, _ in found], np.float64).reshape(-1, 4),
        np.array([score for _, score, _ in found], np.float64),
        np.array([label for _, _, label in found], np.int32),
        np.array([box for box, _ in true], np.float64).reshape(-1, 4),
        np.array([label for _, label in true], np.int32),
        np.arange(len(true)) >= len(true) - len(crowd),
    )


BOX, OTHER, FAR = [0, 0, 10, 10], [0, 0, 10, 6], [20, 20, 30, 30]


@pytest.mark.parametrize(
    ("example", "expected"),
    [
        (build([(BOX, 0.9, 0)], [(BOX, 0)]), [1.0] * 10),
        (build([(OTHER, 0.9, 0)], [(BOX, 0)]), [1.0] * 3 + [0.0] * 7),  # Over 0.6 of it.
        (build([(BOX, 0.9, 1)], [(BOX, 0)]), [0.0] * 10),
        (build([(FAR, 0.9, 0), (BOX, 0.8, 0)], [(BOX, 0)]), [0.5] * 10),
        (build([(BOX, 0.9, 0), (BOX, 0.8, 0)], [(BOX, 0)]), [1.0] * 10),
        # Recalls 0 to 0.5 are 51 of 101.
        (build([(BOX, 0.9, 0)], [(BOX, 0), (FAR, 0)]), [51 / 101] * 10),
        (build([(BOX, 0.9, 0)], [(BOX, 0), (FAR, 1)]), [0.5] * 10),
        (build([(FAR, 0.9, 0), (BOX, 0.8, 0)], [(BOX, 0)], [(FAR, 0)]), [1.0] * 10),
        (build([], [(BOX, 0)]), [0.0] * 10),
    ],
)
def test_average_precision_is_its_closed_form(example, expected):
    found = detection_scores.compute_average_precision([example])

    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_images_without_objects_count_for_false_detections_only():
    empty, right = build([(BOX, 0.9, 0)]), build([(BOX, 0.8, 0)], [(BOX, 0)])

    found = detection_scores.compute_average_precision([empty, right])

    np.testing.assert_allclose(found, 0.5)
    assert np.isnan(detection_scores.compute_average_precision([empty])).all()


def draw_boxes(rng, count):
    corner, side = rng.integers(0, 40, [count, 2]), rng.integers(1, 30, [count, 2])
    return np.concatenate([corner, corner + side], axis=1)


def draw_example(rng):
    true, others = draw_boxes(rng, rng.integers(0, 9)), draw_boxes(rng, rng.integers(0, 150))
    near = true + rng.integers(-2, 3, true.shape)
    near[:, 2:] = np.maximum(near[:, 2:], near[:, :2] + 1)
    classes = rng.integers(0, 2, len(true))
    scores = np.concatenate([rng.uniform(0.3, 1.0, len(true)), rng.uniform(0, 0.7, len(others))])
    return detection_scores.Example(
        np.concatenate([near, others]),
        np.round(scores, 2),  # Some are the same.
        np.concatenate([classes, np.zeros(len(others), np.int64)]),
        true,
        np.where(rng.random(len(true)) < 0.1, 2, classes),
        rng.random(len(true)) < 0.2,
    )


def to_sides(boxes):
    return [[*map(float, box[:2]), *map(float, box[2:] - box[:2])] for box in boxes]


@pytest.mark.parametrize("seed", range(5))
def test_average_precision_is_that_of_pycocotools(seed):
    coco = pytest.importorskip("pycocotools.coco")
    cocoeval = pytest.importorskip("pycocotools.cocoeval")
    rng = np.random.default_rng(seed)
    examples = [draw_example(rng) for _ in range(12)]
    truth, found = coco.COCO(), coco.COCO()
    images = [{"id": number} for number in range(12)]
    categories = [{"id": label} for label in range(3)]
    for one, names in (
        (truth, ("true_boxes", "true_classes", "is_crowd")),
        (found, ("boxes", "classes", "scores")),
    ):
        rows = []
        for number, example in enumerate(examples):
            parts = [getattr(example, name) for name in names]
            for box, label, extra in zip(to_sides(parts[0]), *parts[1:], strict=True):
                field = "score" if names[2] == "scores" else "iscrowd"
                rows.append(
                    {"id": len(rows) + 1, "image_id": number, "category_id": int(label),
                     "bbox": box, "area": box[2] * box[3], "iscrowd": 0, field: float(extra)}
                )  # fmt: skip
        one.dataset = {"images": images, "categories": categories, "annotations": rows}
        with contextlib.redirect_stdout(io.StringIO()):
            one.createIndex()
    evaluation = cocoeval.COCOeval(truth, found, "bbox")
    with contextlib.redirect_stdout(io.StringIO()):
        evaluation.evaluate()
        evaluation.accumulate()

    found = detection_scores.compute_average_precision(examples)

    # [T, R, classes, areas, most detections]: all areas, 100 detections.
    expected = np.mean(evaluation.eval["precision"][:, :, :, 0, 2], axis=(1, 2))
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert 0.05 < np.mean(expected) < 0.95
