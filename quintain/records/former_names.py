"""Modules of PEDL, Determined and the Model Garden, and what they are called here."""

from typing import Final

ROOTS: Final = {
    "determined": "quintain.trials",
    "official": "quintain",
    "orbit": "quintain.orbit",
    "pedl": "quintain.trials",
    "tensorflow_models": "quintain",
}
"""Packages that programs import, and ours with the same names below it."""

_FORMER_PLACES: Final = ("quintain.trials.frameworks",)


def rename(module: str) -> str | None:
    """Returns what a module of one of these packages is called here; None for other modules.

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


def explain_import(module: str) -> str | None:
    """Returns which import to write in the place of one that fails; None for other modules.

    Example:
        >>> explain_import("determined.keras")
        'write `import quintain.trials.keras` instead of `import determined.keras`; `quintain \
migrate DIR` does that in all files.'
    """
    renamed = rename(module)
    if renamed is None:
        return None
    alias = f" as {module}" if "." not in module else ""
    return (
        f"write `import {renamed}{alias}` instead of `import {module}`; `quintain migrate DIR` "
        "does that in all files."
    )
