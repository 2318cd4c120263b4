"""`quintain experiment create`: creates an experiment, runs it and follows it."""

import contextlib
import os
import pathlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from quintain import errors
from quintain.cli import connect, options, output, page_links
from quintain.cli.experiment import file as experiment_file
from quintain.cli.experiment import model_check, sent_code
from quintain.cli.lazy_group import FlagCommand
from quintain.client import provenance
from quintain.client.home import home as home_lib
from quintain.master.processes import launch_environment, process_launcher
from quintain.records.config import experiment_spec
from quintain.records.rows import experiment as experiment_lib

if TYPE_CHECKING:
    from quintain.cli.experiment import foreground
    from quintain.client import master_client

_BEGUN_ANEW = "QUINTAIN_BEGUN_ANEW"
"""Variable of a command that has begun itself anew; Python itself may change what it set then."""


@click.command(cls=FlagCommand)
@click.argument("config_file", metavar="CONFIG")
@click.argument("model_dir", metavar="[MODEL_DIR]", required=False)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="PATH=VALUE",
    help="Override such as searcher.max_trials=8. Repeatable.",
)
@options.template_option
@click.option("--paused", is_flag=True, help="Only create it; `experiment activate` starts it.")
@click.option(
    "--follow/--detach", "-f/-d", default=True, help="Show it while it runs, or return at once."
)
@click.option("--local", is_flag=True, help="Run one trial in this process, without a master.")
@click.option(
    "--test", is_flag=True, help="With --local: one batch, a validation, a checkpoint, and back."
)
@click.option(
    "--check/--no-check", default=True, help="Import the code and check it before the start."
)
@click.option("--quiet", is_flag=True, help="Show no progress.")
@click.option("--json", "as_json", is_flag=True, help="Print the experiment as JSON at the end.")
@options.slot_options
def create(
    config_file: str,
    model_dir: str | None,
    assignments: tuple[str, ...],
    template: str | None,
    paused: bool,
    follow: bool,
    local: bool,
    test: bool,
    check: bool,
    quiet: bool,
    as_json: bool,
    num_slots: int | None,
    threads_per_slot: int | None,
) -> None:
    r"""Create an experiment, run it and follow it.

    CONFIG is a YAML file. MODEL_DIR has the code of the trial; an entrypoint of the form
    `experiment:NAME` needs none. If a master runs for the home directory (QUINTAIN_HOME), it runs
    the experiment; else this command does.

    \b
    quintain experiment create adaptive.yaml model_dir/
    quintain experiment create adaptive.yaml model_dir/ --set searcher.max_trials=8 --detach
    quintain experiment create adaptive.yaml model_dir/ --template team.yaml
    quintain experiment create adaptive.yaml model_dir/ --local --test
    """
    if test and not local:
        raise click.UsageError("`--test` requires `--local`.")
    if local:
        file = experiment_file.load(config_file, assignments, template)
        _set_variables(file.config)
        _tell_unused(file)
        _run_locally(file, _find_model_dir(file, model_dir), is_test=test)
        return
    follows = follow and not paused
    starts_trials = follows and home_lib.find_master(home_lib.find_home()) is None
    file = experiment_file.load(config_file, assignments, template)
    _tell_unused(file)
    directory = _find_model_dir(file, model_dir)
    with _open_launcher(file, directory, is_warm=check or starts_trials) as launcher:
        if directory is not None:
            _check_files(file, directory)
        pending = model_check.ModelCheck(file, directory, launcher) if check else None

        def begin(commands: "master_client.MasterClient") -> experiment_lib.Experiment:
            found = [] if pending is None else pending.finish()
            experiment = commands.create_experiment(
                file.text,
                **sent_code.find(commands, directory, file.config.code),
                source=config_file,
                overrides=[*assignments, *found],
                activate=not paused,
                origin=provenance.collect(directory),
            )
            if not as_json:
                click.echo(f"Created experiment {experiment.id}.")
            return experiment

        try:
            if not follows:
                experiment = _create_only(
                    begin, num_slots, threads_per_slot, says_more=not (as_json or paused)
                )
                if as_json:
                    output.print_json(experiment)
                return
            from quintain.cli.experiment import foreground

            code, experiment = foreground.run(
                begin,
                num_slots=num_slots,
                threads_per_slot=threads_per_slot,
                is_quiet=quiet or as_json,
                launcher=launcher,
            )
        finally:
            if pending is not None:
                pending.cancel()
    if as_json:
        output.print_json(experiment)
    raise click.exceptions.Exit(code)


@contextlib.contextmanager
def _open_launcher(
    file: experiment_file.ExperimentFile, model_dir: pathlib.Path | None, *, is_warm: bool
) -> Iterator[process_launcher.ProcessLauncher]:
    """Opens a launcher of processes; a warm one imports TensorFlow while the code is looked at."""
    launcher = process_launcher.ProcessLauncher()
    if is_warm:
        variables = launch_environment.of_experiment(file.config.environment)
        launcher.warm_up("" if model_dir is None else str(model_dir.absolute()), variables)
    try:
        yield launcher
    finally:
        launcher.close(kill=False)


def _tell_unused(file: experiment_file.ExperimentFile) -> None:
    if file.unused_fields:
        click.echo(
            "Without effect, as trials are processes of this machine and no containers: "
            f"{', '.join(file.unused_fields)}.",
            err=True,
        )


def _set_variables(config: experiment_spec.ExperimentSpec) -> None:
    """Sets the variables of an experiment, for which this command is begun anew.

    Python and its libraries read some of them before they come to this.
    """
    variables = launch_environment.of_experiment(config.environment)
    is_anew = os.environ.pop(_BEGUN_ANEW, None) is not None
    if launch_environment.find_early(variables) and not is_anew:
        sys.stdout.flush()
        sys.stderr.flush()
        environment = {**os.environ, **variables, _BEGUN_ANEW: "1"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
    os.environ.update(variables)


def _find_model_dir(
    file: experiment_file.ExperimentFile, model_dir: str | None
) -> pathlib.Path | None:
    """Returns the directory of the code.

    Raises:
        ConfigError: If it is not there, or missing though the entrypoint needs it.
    """
    entrypoint = file.config.entrypoint
    if model_dir is not None:
        path = pathlib.Path(model_dir)
        if not path.is_dir():
            raise errors.ConfigError(
                f"MODEL_DIR: got {model_dir!r}, expected the directory with the code of "
                f"{entrypoint!r}. There is {'a file' if path.exists() else 'nothing'} at "
                f"{path.absolute()}."
            )
        return path
    if entrypoint is None or not entrypoint.startswith(experiment_spec.REGISTERED_PREFIX):
        raise errors.ConfigError(
            f"MODEL_DIR: missing; {file.path} has the entrypoint {entrypoint!r}, which needs the "
            f"directory with its code. Only `{experiment_spec.REGISTERED_PREFIX}NAME` does without."
        )
    return None


def _check_files(file: experiment_file.ExperimentFile, model_dir: pathlib.Path) -> None:
    """Says what of the directory will not be copied, before its code is imported.

    Raises:
        ConfigError: If it can't be copied.
    """
    from quintain.master.transfer import model_files

    names = sorted(model_files.list_files(model_dir, file.config.code).left_out)
    if names:
        click.echo(
            f"Trials do not have what is ignored: {output.format_names(names)}. "
            f"`!NAME` in {model_files.IGNORE_FILES[0]} takes a file back.",
            err=True,
        )


def _create_only(
    begin: "foreground.Begin",
    num_slots: int | None,
    threads_per_slot: int | None,
    *,
    says_more: bool,
) -> experiment_lib.Experiment:
    """Creates an experiment in the running master, or in one that is started for it."""
    home = home_lib.find_home()
    if home_lib.find_master(home) is None and (num_slots or threads_per_slot):
        connect.start_in_background(home, num_slots=num_slots, threads_per_slot=threads_per_slot)
    with connect.open_client() as client:
        experiment = begin(client)
        if says_more:
            click.echo(f"  quintain experiment describe {experiment.id}", err=True)
            view = f"experiments/{experiment.id}"
            page_links.show(lambda: client.build_link().url, view=view)
        return experiment


def _run_locally(
    file: experiment_file.ExperimentFile, model_dir: pathlib.Path | None, *, is_test: bool
) -> None:
    from quintain.cli import tensorflow_import

    tensorflow_import.import_quietly()
    from quintain.trials.process import local

    local.run_locally(file.config, model_dir, test=is_test)
