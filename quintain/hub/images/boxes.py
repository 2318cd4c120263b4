"""Boxes around objects of images: JSON Lines, or annotation files of COCO."""

import dataclasses
import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from quintain import errors
from quintain.files import file_io
from quintain.hub import configs, records
from quintain.input import input_files

BOXES = "boxes"
_COCO = ("images", "annotations", "categories")
_EDGE = 1.0
"""Pixels by which a box may leave its image, and is cut: rounding of those who drew it."""

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Box:
    """Box around an object."""

    place: str
    """File and line, or annotation."""

    corners: tuple[float, float, float, float]
    """Left, top, right and bottom, in pixels."""

    label: Any
    """Name or number of the class."""

    is_crowd: bool = False
    """Whether it is around many objects."""


@dataclasses.dataclass(frozen=True)
class Image:
    """Image with the boxes of its objects."""

    path: str
    boxes: Sequence[Box]


def read(params: configs.DetectionDataConfig, *, has_names: bool) -> Iterator[Image]:
    """Yields the images of a data set.

    Args:
        params: Its config.
        has_names: Whether classes have names; else those of COCO are given by their ids.

    Raises:
        DataError: If a record or an annotation is wrong, or an image is missing.
    """
    paths = input_files.match_files(params.input_path)
    if all(path.endswith(".json") for path in paths):
        for path in paths:
            yield from _read_coco(path, params.image_dir, has_names=has_names)
        return
    for place, row in records.read(params.input_path):
        yield _read_line(place, row, params)


def _read_line(place: str, row: Mapping[str, Any], params: configs.DetectionDataConfig) -> Image:
    path = records.take_file(place, row, params.fields[0], params.image_dir)
    found, labels = row.get(BOXES), row.get(params.label_field)
    if not isinstance(found, list) or not isinstance(labels, list) or len(found) != len(labels):
        raise errors.DataError(
            f"{place}: {BOXES}, {params.label_field}: got {errors.show(found)} and "
            f"{errors.show(labels)}, expected two lists of the same length; both empty for an "
            "image without objects."
        )
    corners = [_take_numbers(place, BOXES, one, "[left, top, right, bottom]") for one in found]
    return Image(path, [Box(place, *one) for one in zip(corners, labels, strict=True)])


def _read_coco(path: str, image_dir: str, *, has_names: bool) -> Iterator[Image]:
    content = _load(path)
    try:
        names = {one["id"]: one["name"] for one in content["categories"]}
        images = {one["id"]: one for one in content["images"]}
        found: dict[Any, list[Box]] = {number: [] for number in images}
        for one in content["annotations"]:
            place = f"{path}: annotation {one['id']}"
            for field, known in (("image_id", images), ("category_id", names)):
                if one[field] not in known:
                    raise errors.DataError(
                        f"{place}: {field}: got {one[field]!r}, which the file does not have. "
                        "Remove the annotation, or add what it names."
                    )
            left, top, width, height = _take_numbers(
                place, "bbox", one.get("bbox"), "[left, top, width, height]"
            )
            label = names[one["category_id"]] if has_names else one["category_id"]
            corners = left, top, left + width, top + height
            box = Box(place, corners, label, bool(one.get("iscrowd")))
            found[one["image_id"]].append(box)
    except (AttributeError, KeyError, TypeError) as error:
        raise errors.DataError(
            f"{path}: is no annotation file of COCO: {type(error).__name__}: {error}."
        ) from error
    for number, row in images.items():
        place = f"{path}: image {number}"
        yield Image(records.take_file(place, row, "file_name", image_dir), found[number])


def _load(path: str) -> Mapping[str, Any]:
    try:
        content = json.loads(file_io.read_text(path))
    except (ValueError, RecursionError) as error:
        raise errors.DataError(
            f"{path}: is no JSON ({error}). JSON Lines need the ending .jsonl."
        ) from error
    parts = content if isinstance(content, dict) else {}
    if not all(isinstance(parts.get(one), list) for one in _COCO):
        raise errors.DataError(
            f"{path}: expected an annotation file of COCO, with lists of {', '.join(_COCO)}. JSON "
            "Lines need the ending .jsonl."
        )
    return parts


def _take_numbers(
    place: str, field: str, found: Any, expected: str
) -> tuple[float, float, float, float]:
    is_number = isinstance(found, list) and all(type(one) in (int, float) for one in found)
    if not is_number or len(found) != 4 or not all(map(math.isfinite, found)):
        raise errors.DataError(
            f"{place}: {field}: got {errors.show(found)}, expected {expected} in pixels."
        )
    first, second, third, fourth = map(float, found)
    return first, second, third, fourth


def fit(
    images: Sequence[Image], sizes: Sequence[tuple[int, int]], *, skips: bool
) -> list[list[Box]]:
    """Returns the boxes of images, cut at their edges.

    Args:
        images: The images.
        sizes: Height and width of each.
        skips: Whether a box that does not fit is left out.

    Raises:
        DataError: If a box is outside of its image or without an area, and nothing is left out.
    """
    kept: list[list[Box]] = []
    bad = []
    for image, (height, width) in zip(images, sizes, strict=True):
        kept.append([])
        for box in image.boxes:
            left, top, right, bottom = box.corners
            cut = max(left, 0.0), max(top, 0.0), min(right, width), min(bottom, height)
            is_near = all(abs(a - b) <= _EDGE for a, b in zip(cut, box.corners, strict=True))
            if is_near and cut[0] < cut[2] and cut[1] < cut[3]:
                kept[-1].append(dataclasses.replace(box, corners=cut))
                continue
            bad.append(
                f"{box.place}: got a box from ({left:g}, {top:g}) to ({right:g}, {bottom:g}), "
                f"expected one with an area within the {width} by {height} pixels of {image.path}."
            )
    if bad and not skips:
        raise errors.DataError(f"{bad[0]} Mend it, or set corrupt_records=skip to leave it out.")
    if bad:
        _logger.warning("%s The first of %d boxes that are left out.", bad[0], len(bad))
    return kept
