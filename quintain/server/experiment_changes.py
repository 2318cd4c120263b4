"""Types of what users change of an experiment that runs."""

from collections.abc import Mapping, Sequence
from typing import Any

import pydantic

from quintain import errors


class _Changes(pydantic.BaseModel):
    """Types of what `update_experiment` changes."""

    model_config = pydantic.ConfigDict(strict=True)

    description: str | None = None
    labels: Sequence[str] | None = None
    weight: float | None = None
    max_slots: int | None = None
    priority: int | None = None
    max_trials: int | None = None
    checkpoint_storage: dict[str, int] | None = None


def check_types(changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns changes as they are.

    Raises:
        ConfigError: If one of them has a value of another type than its field.
    """
    try:
        _Changes.model_validate(dict(changes))
    except pydantic.ValidationError as error:
        problem = error.errors()[0]
        raise errors.ConfigError(
            f"{'.'.join(map(str, problem['loc']))}: got {repr(problem['input'])[:200]}, "
            f"{problem['msg'][:1].lower()}{problem['msg'][1:]}."
        ) from error
    return changes
