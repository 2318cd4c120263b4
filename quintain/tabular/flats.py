"""A drawn table of flats with their rents, which needs no file and no package."""

import csv
from collections.abc import Sequence
from typing import Final

import numpy as np

from quintain import errors
from quintain.files import file_io, file_paths

PREFIX: Final = "drawn:"
"""Start of an `input_path` that names a table to draw."""

COLUMNS: Final = ("Fläche (m²)", "rooms", "year", "floor", "district", "heating", "rent")
"""Columns of the table. `rent` is what the others tell."""

NUM_ROWS: Final = {"train": 2_000, "validation": 500}
"""Rows of each split."""

_DISTRICTS: Final = {"Altstadt": 1.5, "Hafen": 1.25, "Nord": 0.9, "Süd": 1.0, "Wald": 1.1}


def draw(name: str) -> list[Sequence[str]]:
    """Draws the rows of `drawn:flats/train` or `drawn:flats/validation`, the same each time.

    Every 20th cell of `year` and of `heating` is empty.

    Returns:
        The names of the columns, then the rows, as CSV has them.

    Raises:
        ConfigError: If there is nothing of this name.
    """
    known = [f"{PREFIX}flats/{split}" for split in NUM_ROWS]
    if name not in known:
        raise errors.ConfigError(
            f"input_path: got {name!r}, expected {' or '.join(known)}.{errors.suggest(name, known)}"
        )
    split = name.rpartition("/")[2]
    random = np.random.RandomState(list(NUM_ROWS).index(split))
    rows: list[Sequence[str]] = [COLUMNS]
    for _ in range(NUM_ROWS[split]):
        area = random.uniform(25, 140)
        rooms = max(1, round(area / 28 + random.normal(0, 0.5)))
        year, floor = random.randint(1900, 2024), random.randint(0, 7)
        district = random.choice(list(_DISTRICTS))
        heating = random.choice(["gas", "oil", "pump"], p=[0.6, 0.2, 0.2])
        modern = 1.0 + 0.004 * max(0, year - 1960)
        rent = 9.0 * area**0.95 * _DISTRICTS[district] * modern
        rent += 15 * floor + (80 if heating == "pump" else 0) + random.normal(0, 25)
        cells = [f"{area:.1f}", str(rooms), str(year), str(floor), str(district), str(heating)]
        for place in (2, 5):
            if random.rand() < 0.05:
                cells[place] = ""
        rows.append((*cells, f"{rent:.2f}"))
    return rows


def write(directory: str) -> None:
    """Writes `train.csv` and `validation.csv`."""
    file_io.makedirs(directory)
    for split in NUM_ROWS:
        with file_io.open(file_paths.join(directory, f"{split}.csv"), "w") as file:
            csv.writer(file, lineterminator="\n").writerows(draw(f"{PREFIX}flats/{split}"))
