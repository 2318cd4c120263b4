"""Actions that a config names."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from quintain import errors
from quintain.loggers import metric_logger
from quintain.settings import config_definitions as cfg

FIELD: Final = "trainer.actions"
WHEN: Final = "when"

When = Literal["train", "eval"]
_WHENS: Final[Sequence[When]] = ("train", "eval")


def build(params: cfg.ExperimentConfig, when: When, offered: Mapping[str, Any]) -> list[Any]:
    """Builds the actions that `trainer.actions` names.

    Each is a mapping: `type` is `module:Class`, `when` says whether it is called with the output of
    each training loop (`train`, the default) or of each evaluation (`eval`), and all else are
    arguments of the class.

    Args:
        params: The experiment.
        when: Which of them.
        offered: Arguments that a class gets if it has parameters of these names.

    Raises:
        ConfigError: If there is no such class, or it does not take these arguments.
    """
    built = []
    for index, config in enumerate(params.trainer.actions):
        path = f"{FIELD}[{index}]"
        chosen = config.get(WHEN, _WHENS[0])
        if chosen not in _WHENS:
            raise errors.ConfigError(
                f"{path}.{WHEN}: got {errors.show(chosen)}, expected 'train' or 'eval'."
            )
        if chosen != when:
            continue
        arguments = {name: value for name, value in config.items() if name != WHEN}
        action = metric_logger.build_named(arguments, path, {}, offered)
        if not callable(action):
            raise errors.ConfigError(
                f"{path}.{metric_logger.TYPE}: {config[metric_logger.TYPE]!r} can't be called with "
                "the output of a loop; an action has a method __call__(self, output)."
            )
        built.append(action)
    return built
