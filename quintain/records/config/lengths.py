"""Lengths of training: written in batches, records, epochs or steps, converted to batches."""

import dataclasses
from collections.abc import Mapping
from typing import Final, TypeGuard

from quintain import errors

UNITS: Final = ("batches", "records", "epochs")


@dataclasses.dataclass(frozen=True)
class LengthUnits:
    """Sizes of an epoch and a batch, by which lengths become batches."""

    batches_per_step: int = 100
    """Batches of a step, the unit of plain numbers in the fields that count steps."""

    records_per_epoch: int = 0
    """Examples of an epoch; 0 if it is not known."""

    global_batch_size: int | None = None
    """Examples of a batch, or None if it is not a constant."""

    def to_batches(self, length: object, path: str, *, plain_unit: int = 1) -> int:
        """Returns a length in batches, rounded down, but at least 1.

        Args:
            length: `{batches: n}`, `{records: n}`, `{epochs: n}`, or a plain number.
            path: Where it is, for messages.
            plain_unit: Batches that a plain number counts: 1, or those of a step.

        Raises:
            ConfigError: If it is no length, or what is needed to convert it is not known.
        """
        if _is_whole(length):
            return _require_positive(length, path) * plain_unit
        if not isinstance(length, Mapping) or len(length) != 1:
            raise errors.ConfigError(
                f"{path}: got {errors.show(length)}, expected one of {{batches: n}}, "
                "{records: n}, {epochs: n}, or a whole number."
            )
        ((unit, count),) = length.items()
        if unit not in UNITS:
            raise errors.ConfigError(
                f"{path}.{unit}: unknown unit, expected one of {', '.join(UNITS)}."
                f"{errors.suggest(str(unit), UNITS)}"
            )
        count = _require_positive(count, f"{path}.{unit}")
        if unit == "batches":
            return count
        if unit == "epochs":
            if not self.records_per_epoch:
                raise errors.ConfigError(
                    f"{path}.epochs: got {count}, but records_per_epoch is not set; set it to the "
                    "number of training examples."
                )
            count *= self.records_per_epoch
        if self.global_batch_size is None:
            raise errors.ConfigError(
                f"{path}.{unit}: got {length[unit]}, but hyperparameters.global_batch_size is not "
                "a constant number; without it, examples can't be turned into batches."
            )
        return max(count // self.global_batch_size, 1)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _require_positive(value: object, path: str) -> int:
    if not _is_whole(value) or value < 1:
        raise errors.ConfigError(f"{path}: got {errors.show(value)}, expected a whole number >= 1.")
    return value
