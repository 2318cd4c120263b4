"""The exceptions that this package raises for its callers' mistakes and for the world's.

    QuintainError
    |-- ConfigError (ValueError)             a config value is wrong; carries the dotted path
    |-- RegistryError (LookupError)          a name was never registered, or was registered twice
    |-- DataError (ValueError)               input data can't be used; names file and line
    |-- CheckpointError                      nothing to restore, it does not fit, or can't be written
    `-- TrainingDivergedError (RuntimeError) the loss is not a number any more
"""


class QuintainError(Exception):
    """Base of all exceptions of this package."""


class ConfigError(QuintainError, ValueError):
    """A config value is wrong."""


class RegistryError(QuintainError, LookupError):
    """A name was never registered, or was registered twice."""


class DataError(QuintainError, ValueError):
    """Input data can't be used."""


class CheckpointError(QuintainError):
    """A checkpoint is missing, damaged, does not fit or can't be written."""


class TrainingDivergedError(QuintainError, RuntimeError):
    """The training loss is not finite any more."""
