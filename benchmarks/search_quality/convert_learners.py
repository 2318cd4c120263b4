"""Writes learning curves of LCDB as arrays: errors of 20 learners by the rows that they see.

Source:
    Mohr et al., 2022 (https://doi.org/10.1007/978-3-031-26419-1_1), package `lcdb`, MIT licence.
"""

import collections
import csv
import importlib.util
import json
import pathlib
import sys

import numpy as np

LEAST_ROWS = 1024
LEAST_SPLITS = 3

Curves = dict[tuple[str, tuple[int, int]], dict[int, tuple[float, float]]]
"""Errors of validation and test by rows, by learner and by its test and validation split."""


def read(source: pathlib.Path) -> dict[int, Curves]:
    """Returns the curves of all data sets, by their number at OpenML."""
    found: dict[int, Curves] = collections.defaultdict(dict)
    with source.open(newline="") as file:
        for row in csv.DictReader(file):
            splits = int(row["outer_seed"]), int(row["inner_seed"])
            curve = found[int(row["openmlid"])].setdefault((row["learner"], splits), {})
            errors = 1 - float(row["score_valid"]), 1 - float(row["score_test"])
            curve[int(row["size_train"])] = errors
    return found


def main() -> None:
    """Writes `NUMBER.npz` into the folder of the first argument.

    Left out are splits on which a learner is missing, and data sets with too few rows or splits.
    """
    target = pathlib.Path(sys.argv[1])
    spec = importlib.util.find_spec("lcdb")
    if spec is None or spec.origin is None:
        raise SystemExit("install lcdb")
    found = read(pathlib.Path(spec.origin).with_name("database-accuracy.csv"))
    learners = sorted({learner for curves in found.values() for learner, _ in curves})
    for number, curves in found.items():
        sizes = sorted({size for curve in curves.values() for size in curve})
        complete = {key for key, curve in curves.items() if len(curve) == len(sizes)}
        splits = sorted(
            split
            for split in {split for _, split in complete}
            if all((learner, split) in complete for learner in learners)
        )
        if sizes[-1] < LEAST_ROWS or len({outer for outer, _ in splits}) < LEAST_SPLITS:
            continue
        # Of each learner, split and size that of validation and that of test.
        errors = [
            [[curves[learner, split][size] for size in sizes] for split in splits]
            for learner in learners
        ]
        np.savez_compressed(
            target / f"{number}.npz",
            errors=np.array(errors, np.float32),
            splits=np.array(splits),
            sizes=np.array(sizes),
            choices=json.dumps({"learner": learners}),
        )
        print(f"{number}: {len(splits)} splits, up to {sizes[-1]} rows", flush=True)


if __name__ == "__main__":
    main()
