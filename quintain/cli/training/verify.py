"""`quintain verify`: checks the checkpoints of a run against their receipts."""

import click

from quintain import errors
from quintain.cli import logs, output, tensorflow_import
from quintain.cli.lazy_group import FlagCommand


@click.command(cls=FlagCommand)
@click.argument("run", metavar="RUN")
@click.option(
    "--expect",
    metavar="HASH",
    help="Identity of a receipt that you noted before: the run has to hold it.",
)
@output.json_option
def verify(run: str, expect: str | None, as_json: bool) -> None:
    r"""Check that nothing in a run's checkpoints was changed since they were written.

    \b
    quintain verify runs/local
    """
    logs.set_up(is_verbose=False)
    tensorflow_import.import_quietly()
    from quintain.checkpoints import receipt_check
    from quintain.run.proof import run_facts

    found = receipt_check.verify(run, run_facts.read_settings(run) or None, expect)
    if as_json:
        output.print_json(
            {
                "findings": [{"place": one.place, "reason": one.reason} for one in found.findings],
                "checkpoints": found.num_checkpoints,
                "receipts": found.num_receipts,
                "head": found.head,
            }
        )
    elif not found.findings:
        click.echo(
            f"{run}: {found.num_checkpoints} checkpoints and {found.num_receipts} receipts are as "
            f"they were written. Newest receipt: {found.head}"
        )
    if found.findings:
        lines = "".join(f"\n  {one}" for one in found.findings)
        raise errors.CheckpointError(f"{run}: {len(found.findings)} differences:{lines}")
