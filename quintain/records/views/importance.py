"""Importance of hyperparameters for a metric."""

import dataclasses
import enum


class Evaluator(enum.StrEnum):
    """Evaluators of importance."""

    AUTO = "auto"
    """fANOVA if scikit-learn is there and the trials are not too many, else PED-ANOVA."""

    FANOVA = "fanova"
    """The share of the metric's variance that a hyperparameter explains, by a random forest."""

    PED_ANOVA = "ped_anova"
    """How different the values of the best tenth of the trials are from those of all."""

    MDI = "mdi"
    """How much splits of a random forest by a hyperparameter lower the metric's variance."""


@dataclasses.dataclass(frozen=True)
class Importances:
    """Importance of each hyperparameter."""

    evaluator: Evaluator
    num_trials: int
    """Trials that have a metric, and were looked at."""

    importances: tuple[tuple[str, float], ...] = ()
    """Dotted names and shares, the largest first; they add up to 1. Constants are left out."""

    problem: str = ""
    """Why nothing can be said; empty if something can."""
