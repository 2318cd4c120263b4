"""`quintain verify`, `diff` and `reproduce`: proofs by the receipts of checkpoints."""

import click

from quintain import errors
from quintain.cli import logs, options, output, tensorflow_import
from quintain.cli.lazy_group import FlagCommand


@click.command(cls=FlagCommand)
@click.argument("run", metavar="RUN")
@click.option(
    "--expect",
    metavar="HASH",
    help="Whole identity of a receipt that you noted before: the run has to hold it.",
)
@click.option(
    "--from",
    "start",
    type=click.IntRange(min=0),
    metavar="STEP",
    help="Train again from the checkpoint of this step, in a directory that is deleted.",
)
@click.option(
    "--to", "stop", type=click.IntRange(min=1), metavar="STEP", help="With --from: the last step."
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="PATH=VALUE",
    help="With --from: train with another value, as in runtime.kernels=tensorflow. Repeatable.",
)
@output.json_option
@click.pass_context
def verify(
    context: click.Context,
    run: str,
    expect: str | None,
    start: int | None,
    stop: int | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> None:
    r"""Check that a run's checkpoints are as they were written, and that training repeats them.

    Differences are named, and end it with exit code 1.

    \b
    quintain verify runs/local
    quintain verify runs/local --from 400 --to 500
    """
    logs.set_up(is_verbose=False)
    if (start is None) != (stop is None) or (assignments and start is None):
        raise errors.ConfigError("--from and --to: give both of them, or neither and no --set.")
    tensorflow_import.import_quietly()
    from quintain.checkpoints import receipt_check
    from quintain.run.proof import retraining, run_facts

    if start is not None and stop is not None:
        options.build_parse_options()  # Registers the experiments of the package.
        compared = retraining.retrain(run, start, stop, assignments)
        if as_json:
            output.print_json(compared)
        else:
            click.echo(f"{run}, steps {start} to {stop}: {compared.describe()}")
        context.exit(int(compared.step is not None))
    found = receipt_check.verify(run, run_facts.read_settings(run) or None, expect)
    if as_json:
        output.print_json(found)
    elif found.findings:
        lines = "".join(f"\n  {one}" for one in found.findings)
        click.echo(f"{run} is not as it was written:{lines}")
    else:
        click.echo(
            f"{run}: {found.num_checkpoints} checkpoints and {found.num_receipts} receipts are as "
            f"they were written. Newest receipt: {found.head}"
        )
    context.exit(int(bool(found.findings)))


@click.command(cls=FlagCommand)
@click.argument("first", metavar="RUN_A")
@click.argument("second", metavar="RUN_B")
@output.json_option
@click.pass_context
def diff(context: click.Context, first: str, second: str, as_json: bool) -> None:
    r"""Show the first checkpoint at which two runs differ, and the facts that differ.

    A difference ends it with exit code 1.

    \b
    quintain diff runs/a runs/b
    """
    logs.set_up(is_verbose=False)
    tensorflow_import.import_quietly()
    from quintain.run.proof import comparison

    compared = comparison.compare(first, second)
    if as_json:
        output.print_json(compared)
    else:
        click.echo(f"{first} and {second}: {compared.describe()}")
    context.exit(int(compared.step is not None))


@click.command(cls=FlagCommand)
@click.argument("receipt", metavar="RECEIPT")
@click.option("--model-dir", required=True, metavar="DIR", help="Directory of the new run.")
@click.pass_context
def reproduce(context: click.Context, receipt: str, model_dir: str) -> None:
    r"""Train a run anew up to the step of a receipt, from data and code that have its hashes.

    A difference ends it with exit code 1.

    \b
    quintain reproduce runs/local/ckpt-500.receipt.json --model-dir=runs/again
    """
    logs.set_up(is_verbose=False)
    options.build_parse_options()
    from quintain.run.proof import reproduction

    differences = reproduction.reproduce(receipt, model_dir)
    if differences:
        lines = "".join(f"\n  {one}" for one in differences)
        click.echo(f"{model_dir}: differs from {receipt} in:{lines}")
    else:
        click.echo(f"{model_dir}: equal to the bit to {receipt}.")
    context.exit(int(bool(differences)))
