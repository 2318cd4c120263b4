"""Experiment configs of the platform; `provenance`, as an attribute, loads when first used."""

from typing import TYPE_CHECKING

from quintain import lazy_modules

if TYPE_CHECKING:
    from quintain.records.config import provenance as provenance
else:
    __getattr__, __dir__ = lazy_modules.attach(__name__, ("provenance",))
