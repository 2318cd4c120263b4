"""Arguments for ids of experiments, trials and checkpoints, which shells complete."""

from collections.abc import Callable, Iterable
from typing import Any, Final

import click
from click import shell_completion

from quintain import errors
from quintain.cli import columns
from quintain.client import calls as calls_lib
from quintain.client.home import home as home_lib

_MOST: Final = 50
_TIMEOUT_SECS: Final = 2.0

_Rows = Iterable[tuple[object, str]]


def _list_experiments(calls: calls_lib.Calls) -> _Rows:
    for one in calls.list_experiments():
        yield one.id, f"{one.state.value} {columns.name_of(one)}"


def _list_trials(calls: calls_lib.Calls) -> _Rows:
    for one in calls.list_trials():
        yield one.id, f"{one.state.value} {columns.format_hparams(one.hparams)}"


def _list_checkpoints(calls: calls_lib.Calls) -> _Rows:
    for one in filter(columns.is_usable, calls.list_checkpoints()):
        yield one.uuid, f"trial {one.trial_id} after {one.total_batches} batches"


def _build_completer(read: Callable[[calls_lib.Calls], _Rows]) -> Callable[..., Any]:
    """Returns a function that completes ids that the running master knows, the newest first.

    Nothing is completed where none runs, or where it does not answer at once.
    """

    def complete(
        context: click.Context, param: click.Parameter, begun: str
    ) -> list[shell_completion.CompletionItem]:
        del context, param
        try:
            found = home_lib.find_master(home_lib.find_home())
            if found is None:
                return []
            # They import urllib3, for which nobody need wait without a master.
            from quintain.client import master_client
            from quintain.client.http import connection

            retries = connection.Retries(0.0)
            with master_client.MasterClient(
                connection.Connection(found.address, retries=retries, timeout_secs=_TIMEOUT_SECS)
            ) as client:
                rows = [(str(name), text) for name, text in read(client)]
        except (errors.QuintainError, OSError):
            return []
        chosen = [row for row in reversed(rows) if row[0].startswith(begun)]
        return [shell_completion.CompletionItem(name, help=text) for name, text in chosen[:_MOST]]

    return complete


complete_experiment: Final = _build_completer(_list_experiments)
complete_trial: Final = _build_completer(_list_trials)
complete_checkpoint: Final = _build_completer(_list_checkpoints)

experiment_argument = click.argument(
    "experiment_id", metavar="ID", type=int, shell_complete=complete_experiment
)
"""Adds the id of an experiment."""

experiments_argument = click.argument(
    "experiment_ids",
    metavar="ID...",
    type=int,
    nargs=-1,
    required=True,
    shell_complete=complete_experiment,
)
"""Adds the ids of one or more experiments."""

optional_experiment_argument = click.argument(
    "experiment_id",
    metavar="[EXPERIMENT]",
    type=int,
    required=False,
    shell_complete=complete_experiment,
)
"""Adds the id of an experiment, for lists of one experiment's records or of all."""

trial_argument = click.argument("trial_id", metavar="ID", type=int, shell_complete=complete_trial)
"""Adds the id of a trial."""
