"""Preloads of a fork server: imports, and a first computation."""

import contextlib
import functools
import pathlib
from collections.abc import Mapping, Sequence, Set
from typing import Final

from quintain.records.config import source_imports, source_names

WORKER: Final = "quintain.trials.process.worker"
"""Module of the trial process; a text, for the scheduler does not know trials."""

WARM_START: Final = "quintain.trials.warm_up:warm_up"
"""Function that computes once, and leaves nothing in the process but what saves time."""

PRELOADED: Final = (
    "tensorflow",
    "keras",
    WORKER,
    "quintain.trials.keras.keras_trial",
    "quintain.trials.keras.keras_libraries",
    WARM_START,
)
"""Modules that the fork server imports, and functions that it calls."""

_GRAPH_LIBRARIES: Final = "quintain.trials.graphs.graph_libraries"
_GRAPH_NAMES: Final = frozenset({"EstimatorTrial", "TensorFlowTrial"})
"""The fork server for code that uses one of these names imports that module as well."""

_SESSION_NAMES: Final = frozenset(
    {"ConfigProto", "InteractiveSession", "MonitoredSession", "MonitoredTrainingSession", "Session"}
)
"""For code that uses one of these nothing is computed: sessions of graphs ask the variables for
their threads, which TensorFlow reads in its first computation only."""

_ENVIRONMENT_NAMES: Final = frozenset({"environ", "environb", "putenv"})
"""For code that uses one of these nothing is computed either: it may set what TensorFlow reads in
its first computation, such as `TF_XLA_FLAGS`."""

_COLD_NAMES: Final = _GRAPH_NAMES | _SESSION_NAMES | _ENVIRONMENT_NAMES

_PLAIN_NAME: Final = "base_trial"
_TENSORFLOW_NAMES: Final = frozenset(
    {
        *("tensorflow", "tf", "keras", "tf_keras"),
        *("KerasTrial", "TaskTrial", "keras_trial", "task_trial"),
        *("core", "modeling", "nlp", "optimization", "orbit"),
    }
)
"""For code that derives its trial from `base_trial` and uses none of these, TensorFlow, which takes
nearly all of the time until the first trial, is not imported."""

_WITH_TENSORFLOW: Final = frozenset({*PRELOADED} - {WORKER})

_MOST_LOOKED_AT: Final = 20_000
"""Files that are looked through for these names."""


def find(preloaded: Sequence[str], model_dir: str, environment: Mapping[str, str]) -> list[str]:
    """Returns what is done for the trials of a directory.

    The user's own files are not imported: what they do then is of one trial alone. Other libraries
    come last, so that what they set is not there yet in the first computation.

    Args:
        preloaded: What is done for all trials: modules, and functions as `module:function`.
        model_dir: Directory with the user's code; empty if there is none.
        environment: Variables of the experiment.
    """
    names, libraries = _look_through(model_dir)
    # Who sets where modules are found may mean other ones.
    if any(name.startswith("PYTHON") for name in environment):
        libraries = ()
    left_out: Set[str] = frozenset({WARM_START}) if names & _COLD_NAMES else frozenset()
    if names == {_PLAIN_NAME} and not libraries:
        left_out = _WITH_TENSORFLOW
    wanted = [name for name in preloaded if name not in left_out]
    graphs = [_GRAPH_LIBRARIES] if names & _GRAPH_NAMES else []
    return [*wanted, *graphs, *libraries]


@functools.lru_cache(maxsize=64)
def _look_through(model_dir: str) -> tuple[Set[str], tuple[str, ...]]:
    """Returns which of the names above code uses, and what it imports beyond what all trials do.

    This is a guess that only costs time if it is wrong: directories that are very large, or can't
    be read, are refused when they are copied.
    """
    if not model_dir:
        return frozenset(), ()
    path = pathlib.Path(model_dir)
    with contextlib.suppress(OSError):
        look_for = functools.partial(source_names.find_used_below, path, most=_MOST_LOOKED_AT)
        names = look_for(_COLD_NAMES | {_PLAIN_NAME})
        if names == {_PLAIN_NAME}:
            # Parsing what names TensorFlow would take long in a large directory.
            names |= look_for(_TENSORFLOW_NAMES)
        return names, source_imports.find_libraries(path, most=_MOST_LOOKED_AT)
    return frozenset(), ()
