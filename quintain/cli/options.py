"""Flags that several commands share."""

import contextlib
import enum
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from quintain import errors
from quintain.process import start_up

if TYPE_CHECKING:
    from quintain.run import experiment_parser

F = TypeVar("F", bound=Callable[..., Any])

_REGISTERED: Final = re.compile(
    r'^@exp_factory\.register_config_factory\("([^"]+)"\)', re.MULTILINE
)


class Choice(click.Choice[str]):
    """One of several words, which shells complete; an error names the nearest."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Returns the word.

        Raises:
            ConfigError: If it is none of them.
        """
        if value not in self.choices:
            name = "value" if param is None else param.opts[0]
            raise errors.ConfigError(
                f"{name}: got {value!r}, expected one of {', '.join(self.choices)}."
                f"{errors.suggest(value, self.choices)}"
            )
        return str(value)


def combine(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Returns the decorator that adds several options, which help shows in this order."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def complete_experiment(context: click.Context, option: click.Parameter, begun: str) -> list[str]:
    """Returns the names of the package's experiments, read from its source, as imports are slow."""
    import importlib.resources

    del context, option
    sources = importlib.resources.files("quintain") / "nlp" / "experiments"
    return [
        name
        for source in sorted(sources.iterdir(), key=lambda each: each.name)
        if source.name.endswith(".py")
        for name in _REGISTERED.findall(source.read_text(encoding="utf-8"))
        if name.startswith(begun)
    ]


experiment_options = combine(
    click.option(
        "--experiment",
        metavar="NAME",
        shell_complete=complete_experiment,
        help="Registered experiment; `quintain config list` shows them.",
    ),
    click.option(
        "--config-file",
        multiple=True,
        metavar="FILE",
        help="YAML file that overrides the experiment. Repeatable; the last one wins.",
    ),
    click.option(
        "--params-override",
        multiple=True,
        metavar="PATH=VALUE,...",
        hidden=True,  # The Model Garden's name; `--set` is the documented one.
    ),
    click.option(
        "--set",
        "assignments",
        multiple=True,
        metavar="PATH=VALUE",
        help="Overrides one value, as in trainer.train_steps=10. Repeatable.",
    ),
    click.option("--gin-file", multiple=True, metavar="FILE", help="gin file. Repeatable."),
    click.option("--gin-params", multiple=True, metavar="BINDING", help="gin binding. Repeatable."),
    click.option(
        "--import",
        "imports",
        multiple=True,
        metavar="MODULE",
        help="Module that registers experiments of your own. Repeatable.",
    ),
)
"""Adds the flags that choose and change an experiment."""


search_options = combine(
    click.option(
        "--beam-size", type=click.IntRange(min=1), help="Candidates kept while searching."
    ),
    click.option("--alpha", type=float, help="Strength of the length normalisation."),
    click.option("--num-outputs", type=click.IntRange(min=1), help="Translations of each text."),
)
"""Adds the options of a search for translations."""


def state_option(states: type[enum.StrEnum]) -> Callable[[F], F]:
    """Returns the option of a list that shows records in some states only."""
    return click.option(
        "--state",
        "state_names",
        multiple=True,
        type=click.Choice([state.value for state in states], case_sensitive=False),
        help="Only those in this state. Repeatable.",
    )


log_option = click.option(
    "--alsologtostderr", is_flag=True, help="Show the log, TensorFlow's included."
)
"""Adds `--alsologtostderr`."""

precision_option = click.option(
    "--precision",
    type=click.Choice(["float32", "bfloat16", "int8"]),
    help="Type of the decoder's layers; int8 rounds the weights of both sides.",
)
"""Adds `--precision`, of decoding."""


export_option = click.option(
    "--option",
    "own_options",
    multiple=True,
    metavar="NAME=VALUE",
    help="Option of the task's `build_export_module`. Repeatable.",
)
"""Adds `--option`, for what a task of the user's own takes when its model is exported."""


def parse_export_options(given: Mapping[str, Any], own_options: Iterable[str]) -> dict[str, Any]:
    """Returns the options of an export, those of flags that were left out not among them.

    Args:
        given: Options of tasks of this package, by their flags.
        own_options: Others, as `NAME=VALUE`.

    Raises:
        ConfigError: If one has no `=`.
    """
    from quintain.config import overrides

    named = {name: value for name, value in given.items() if value is not None}
    for text in own_options:
        named |= overrides.parse_assignment(text)
    return named


cluster_options = combine(
    click.option(
        "--cluster-workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="Train synchronously in N processes on the machines of the master that runs, each "
        "with a slot of its own.",
    ),
    click.option(
        "--ray",
        "ray_address",
        is_flag=False,
        flag_value="auto",
        metavar="[ADDRESS]",
        help="Train so on the nodes of a Ray cluster (auto: this machine's), in as many processes "
        "as it has slots. A master is started for it in the background if none runs.",
    ),
    click.option(
        "--ray-max-slots",
        type=click.IntRange(min=1),
        metavar="N",
        help="With --ray: that master asks Ray's autoscaler for nodes, up to N slots in all, and "
        "without --cluster-workers there are as many processes.",
    ),
)
"""Adds the options by which a run is trained on the machines of a master."""


def slot_options(command: F, *, least: int = 1) -> F:
    """Adds the flags that say what trials may use.

    Args:
        command: The command.
        least: Least number of slots.
    """
    command = click.option(
        "--threads-per-slot",
        type=click.IntRange(min=1),
        metavar="N",
        help="CPU threads of a slot; an equal share of all by default.",
    )(command)
    return click.option(
        "--slots",
        "num_slots",
        type=click.IntRange(min=least),
        metavar="N",
        help="Trials that run at once. By default one for each GPU, or shares of the CPU.",
    )(command)


def runs_option(command: F) -> F:
    """Adds `--runs`, given as absolute paths."""
    return click.option(
        "--runs",
        "run_dirs",
        multiple=True,
        metavar="DIR",
        callback=_check_directories,
        help="Directory whose runs of `quintain train` the page shows. Repeatable.",
    )(command)


def _check_directories(
    context: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> tuple[str, ...]:
    del context, option
    for path in given:
        if not os.path.isdir(path):
            raise errors.ConfigError(f"--runs: got {path!r}, expected a directory.")
    return tuple(map(os.path.abspath, given))


def build_parse_options(**flags: Any) -> "experiment_parser.ParseConfigOptions":
    """Returns the `ParseConfigOptions` of a command's flags.

    `quintain.core` is imported here, because it imports TensorFlow.
    """
    from quintain.cli import tensorflow_import

    tensorflow_import.import_quietly()
    is_first = "quintain.registered_experiments" not in sys.modules
    with start_up.without_collecting() if is_first else contextlib.nullcontext():
        import quintain.registered_experiments  # noqa: F401 - registers those of the package
        from quintain.run import experiment_parser

    flags["set"] = flags.pop("assignments", ())
    return experiment_parser.ParseConfigOptions(**flags)


template_option = click.option(
    "--template",
    metavar="FILE|NAME",
    help="Lay CONFIG over this one; a name is that of a file in the home's `templates`.",
)
"""Adds `--template`."""
