"""Imports of PEDL, Determined and the Model Garden, and their replacements here."""

import re
from typing import Final

ROOTS: Final = {
    "determined": "quintain.trials",
    "official": "quintain",
    "orbit": "quintain.orbit",
    "pedl": "quintain.trials",
    "tensorflow_models": "quintain",
    "tf_keras": "tensorflow.keras",
}
"""Packages that programs import, and those that have the same names below them here.

Projects of the Model Garden import Keras 2 as `tf_keras`. Models are Keras 3 here, which keeps more
names of Keras 2 as `tensorflow.keras` than as `keras`.
"""

_STATEMENT: Final = re.compile(r"\s*(?P<kind>from|import)\s+(?P<module>[\w.]+)(?P<rest>.*)")
_FORMER_PLACES: Final = ("quintain.trials.frameworks",)


def rename(module: str) -> str | None:
    """Returns the replacement of a module of these packages; None for other modules.

    Example:
        >>> rename("pedl.frameworks.keras"), rename("official.core.base_task"), rename("os")
        ('quintain.trials.keras', 'quintain.core.base_task', None)
    """
    root, dot, inner = module.partition(".")
    if root not in ROOTS:
        return None
    renamed = f"{ROOTS[root]}{dot}{inner}"
    for place in _FORMER_PLACES:
        if renamed == place or renamed.startswith(f"{place}."):
            renamed = renamed.replace(place, place.rpartition(".")[0], 1)
    return renamed


def explain_import(module: str, line: str = "") -> str | None:
    """Returns the import to write in the place of one that fails; None for other modules.

    Example:
        >>> explain_import("determined", "from determined.keras import TFKerasTrial")
        'write `from quintain.trials.keras import TFKerasTrial` instead of `from determined.keras \
import TFKerasTrial`; `quintain migrate DIR` does that in all files.'
    """
    renamed = rename(module)
    if renamed is None:
        return None
    found = _STATEMENT.match(line)
    moved = rename(found["module"]) if found else None
    if found is None or moved is None:
        alias = f" as {module}" if "." not in module else ""
        former, present = f"import {module}", f"import {renamed}{alias}"
    else:
        former = line.strip()
        is_bare = found["kind"] == "import" and not found["rest"].strip()
        alias = f" as {found['module']}" if is_bare and "." not in found["module"] else ""
        present = f"{found['kind']} {moved}{found['rest'].rstrip()}{alias}"
    return (
        f"write `{present}` instead of `{former}`; `quintain migrate DIR` does that in all files."
    )
