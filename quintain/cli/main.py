"""The `quintain` command: its sub-commands, and what the user sees when one of them fails.

Sub-commands load when they are called, so that `quintain --help` waits for nothing.
"""

import logging
import os
import shlex
import sys
import traceback
from collections.abc import Sequence
from typing import Final

import click

from quintain import __version__, errors
from quintain.cli import standard_streams
from quintain.cli.lazy_group import LazyGroup
from quintain.files import disk_errors
from quintain.process import process_end
from quintain.terminal import printable

_SECTIONS: Final = {
    "Train": {
        "config": ("training.config:config", "Show, list, compare and describe experiments."),
        "data": ("training.data:data", "Prepare data: train a vocabulary, mask text for BERT."),
        "tune": ("training.tune:tune", "Find a learning rate, and the largest batch that fits."),
        "train": ("training.train:train", "Train and evaluate an experiment, or go on with a run."),
        "verify": (
            "training.verify:verify",
            "Check the checkpoints of a run against their receipts, or train them again.",
        ),
        "reproduce": (
            "training.verify:reproduce",
            "Build a run anew from one receipt, where its data and code are found.",
        ),
        "diff": ("training.verify:diff", "Show the first checkpoint at which two runs differ."),
        "tensorboard": ("training.tensorboard:tensorboard", "Show trials and runs in TensorBoard."),
    },
    "Search": {
        "experiment": (
            "experiment.group:experiment",
            "Search hyperparameters: create, show and steer experiments.",
        ),
        "trial": ("platform.trial:trial", "Show and steer trials, the points of searches."),
        "checkpoint": (
            "platform.checkpoint:checkpoint",
            "Show, export, copy and delete saved states of trials; average those of a run.",
        ),
        "ui": ("platform.ui:ui", "Open the page: watch searches and runs, and steer them."),
    },
    "Use": {
        "translate": ("training.translate:translate", "Translate text with a trained model."),
        "predict": (
            "training.predict:predict",
            "Ask a trained model about texts, or about files of examples.",
        ),
        "export": (
            "training.export:export",
            "Write a trained model as a SavedModel with text in and out.",
        ),
        "model": (
            "platform.model:model",
            "Register trained models under names, promote versions to aliases.",
        ),
        "serve-model": (
            "training.serve_model:serve_model",
            "Answer over HTTP with a trained model.",
        ),
    },
    "Operate": {
        "doctor": (
            "platform.doctor:doctor",
            "Show what this machine has, and what keeps something from working.",
        ),
        "master": ("platform.master:master", "Run the master of experiments, or ask it."),
        "agent": ("platform.agent:agent", "Let this machine run trials for a master elsewhere."),
        "node": (
            "platform.node:node",
            "Show machines that run trials, empty them, and use them again.",
        ),
        "user": ("platform.user:user", "Show who may do what, and give roles."),
        "audit": ("platform.audit:audit", "Show who changed what."),
        "login": ("platform.login:login", "Ask the master of another machine by all commands."),
        "logout": ("platform.login:logout", "Ask the master of this home directory again."),
        "store": ("platform.store:store", "Copy experiments to another database, and back."),
        "completion": (
            "completion:completion",
            "Print a script for bash, zsh or fish that completes commands and values.",
        ),
        "migrate": (
            "platform.migrate:migrate",
            "Move programs of PEDL, Determined and the Model Garden by their imports.",
        ),
    },
}
"""Places of the commands below `quintain.cli` and a line of help each, in the order of use."""

EXIT_BAD_INPUT: Final = 2
EXIT_FAILURE: Final = 1
_NOT_BAD_INPUT: Final = (errors.ClusterError, errors.StateError, errors.NotFoundError)
_LEFT_AS_THEY_ARE: Final = frozenset({"quintain.server.daemon", "tensorflow"})
"""Modules with which so much was imported that Python would take half a second to take it apart."""

_SIGNAL_EXITS: Final = {"SIGHUP": 129, "SIGINT": 130, "SIGTERM": 143}


@click.group(
    cls=LazyGroup,
    sections={
        title: {name: (f"quintain.cli.{place}", text) for name, (place, text) in section.items()}
        for title, section in _SECTIONS.items()
    },
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="quintain")
def cli() -> None:
    r"""Trains TensorFlow models and searches their hyperparameters.

    \b
    quintain train --experiment=translation/local --model-dir=runs/local
    quintain translate --model-dir=runs/local "the third of May"
    quintain experiment create adaptive.yaml model_dir/
    quintain ui
    quintain config list
    """


def main(args: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with 0, or 2 for bad input, 1 for a failure.

    Raises:
        SystemExit: Always.
    """
    arguments = list(sys.argv[1:] if args is None else args)
    standard_streams.open_missing()
    standard_streams.watch()
    code = run(arguments)
    if not standard_streams.flush():
        code = standard_streams.EXIT_BROKEN_PIPE
    elif (unwritten := standard_streams.find_unwritten()) is not None:
        click.echo(f"Error: {disk_errors.explain(unwritten)}", err=True)
        code = code or EXIT_BAD_INPUT
    if not _LEFT_AS_THEY_ARE.isdisjoint(sys.modules):
        process_end.leave(code)  # Everything is written by now.
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Runs the command line and returns the exit code."""
    logging.captureWarnings(capture=True)
    shows_traceback = "--traceback" in arguments
    try:
        code = cli.main(args=list(arguments), prog_name="quintain", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return EXIT_BAD_INPUT
    except click.Abort:
        click.echo("Stopped.", err=True)
        return _SIGNAL_EXITS["SIGINT"]
    except (errors.QuintainError, OSError) as error:
        if error is standard_streams.find_unwritten():
            return EXIT_BAD_INPUT  # The message is written at the end of the process.
        if shows_traceback:
            traceback.print_exc()
        click.echo(f"Error: {printable.clean(_describe_bad_input(error))}", err=True)
        # A lost process is nobody's typo: the cluster may be started again as it is. Nor is what is
        # not there any more, or has gone on to another state.
        return EXIT_FAILURE if isinstance(error, _NOT_BAD_INPUT) else EXIT_BAD_INPUT
    except KeyboardInterrupt:
        click.echo("Stopped.", err=True)
        return _SIGNAL_EXITS["SIGINT"]
    except Exception as error:  # noqa: BLE001 - the border of the process
        return _report_failure(error, arguments, shows_traceback)
    return code if isinstance(code, int) else 0


def _describe_bad_input(error: errors.QuintainError | OSError) -> str:
    """Returns a message, with the line of the user's code where a file could not be opened."""
    text = disk_errors.explain(error) or str(error)
    from quintain.process import user_errors

    found = None if isinstance(error, errors.QuintainError) else user_errors.explain(error)
    return f"{text}\n  {found.place}" if found and found.place else text


def _report_failure(error: Exception, arguments: Sequence[str], shows_traceback: bool) -> int:
    """Reports an exception that is nobody's typo, or a run that was asked to stop."""
    # Looked at by name: importing the class would import TensorFlow.
    if type(error).__name__ == "Interrupted":
        click.echo(_describe_interruption(error, arguments), err=True)
        return _SIGNAL_EXITS.get(str(getattr(error, "reason", "")), EXIT_FAILURE)
    if (text := disk_errors.explain(error)) is not None:  # Nor is a full disk unexpected.
        if shows_traceback:
            traceback.print_exception(error)
        click.echo(f"Error: {text}", err=True)
        return EXIT_BAD_INPUT
    if shows_traceback:
        traceback.print_exception(error)
    from quintain.process import user_errors

    found = user_errors.explain(error)
    lines = found.lines if found.place else [found.cause, "This was not expected."]
    if not shows_traceback:
        lines.append("Run the same command with --traceback to see all of it.")
    click.echo(printable.clean("Error: " + "\n".join(lines)), err=True)
    return EXIT_FAILURE


def _describe_interruption(error: Exception, arguments: Sequence[str]) -> str:
    step, reason = getattr(error, "step", "?"), getattr(error, "reason", "?")
    from quintain.cli.training import local_cluster

    if local_cluster.SUPERVISOR_VARIABLE in os.environ:
        return f"Stopped by {reason} at step {step}; everything is saved."
    return (
        f"Stopped by {reason} at step {step}; everything is saved. To go on:\n"
        f"  quintain {shlex.join(arguments)}"
    )


if __name__ == "__main__":
    main()
