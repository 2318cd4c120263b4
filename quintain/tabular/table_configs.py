"""Config of predictions from tables."""

import dataclasses
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le

from quintain import errors
from quintain.config import base_config
from quintain.optimization.configs import ranges
from quintain.settings import config_definitions as cfg

Width = Annotated[int, Gt(0), Le(65_536)]


@dataclasses.dataclass
class TableModelConfig(base_config.Config):
    """Dense layers over normalised numbers and embedded categories."""

    width: Width = 64
    """Units of a layer."""

    num_layers: Annotated[int, Ge(0), Le(100)] = 2
    """Layers below the last one."""

    dropout_rate: ranges.Fraction = 0.1
    """Share of units that training drops after each of them."""

    embedding_width: Annotated[int, Ge(0), Le(4_096)] = 0
    """Size of the vector of a category. 0 takes one for each column by how many values it has."""


@dataclasses.dataclass
class TableDataConfig(cfg.DataConfig):
    """Rows of a table."""

    input_path: Any = ""
    """CSV (.csv, .tsv, .gz) or Parquet (.parquet) files with the same columns, the first line of
    CSV being their names; or `drawn:flats/train`, which needs no file."""

    delimiter: str = ","
    """Character between the cells of CSV; .tsv has tabs."""

    global_batch_size: cfg.NonNegativeInt = 64
    """Rows in a batch over all replicas."""

    is_training: bool | None = True
    """Whether the rows are shuffled and repeated for training."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the fields whose values do not fit together."""
        yield from super().check()
        if len(self.delimiter) != 1:
            yield "delimiter", f"got {errors.show(self.delimiter)}, expected one character."
        if self.tfds_name:
            yield "tfds_name", "got a name, but tables are read from input_path only."


@dataclasses.dataclass
class TabularConfig(cfg.TaskConfig):
    """Prediction of a column from the others: columns, model, data."""

    target: str = ""
    """Column to predict."""

    kind: Literal["auto", "regression", "classification"] = "auto"
    """Whether the target is a number or a class. `auto` takes text, and whole numbers of at most 20
    different values, as classes."""

    numbers: tuple[str, ...] = ()
    """Columns that hold numbers. Others are numbers if all their cells are."""

    categories: tuple[str, ...] = ()
    """Columns that hold categories, even if they are written as numbers."""

    ignored: tuple[str, ...] = ()
    """Columns that are left out."""

    missing_values: tuple[str, ...] = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?")
    """Cells that stand for a missing value."""

    max_categories: Annotated[int, Gt(0), Le(10_000_000)] = 1_000
    """Values of a column that get a vector of their own, the most frequent ones."""

    model: TableModelConfig = dataclasses.field(default_factory=TableModelConfig)
    """The model."""

    train_data: TableDataConfig = dataclasses.field(default_factory=TableDataConfig)
    """Rows to train on."""

    validation_data: TableDataConfig = dataclasses.field(
        default_factory=lambda: TableDataConfig(is_training=False)
    )
    """Rows to evaluate on."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the fields whose values do not fit together."""
        yield from super().check()
        given = [*self.numbers, *self.categories, *self.ignored, self.target]
        if twice := [name for name in given if name and given.count(name) > 1]:
            yield (
                "numbers",
                f"{twice[0]!r} is given twice among target, numbers, categories, ignored.",
            )
