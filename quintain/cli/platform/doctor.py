"""`quintain doctor`: what this machine has for Quintain, and what keeps something from working."""

from typing import Final

import click

from quintain.cli import output
from quintain.cli.lazy_group import FlagCommand
from quintain.cli.platform import doctor_findings

_EXIT_PROBLEM: Final = 1


@click.command(cls=FlagCommand)
@output.json_option
def doctor(as_json: bool) -> None:
    r"""Show what this machine has: versions, processor, native kernels, home directory, extras.

    Native kernels are compiled if they have not been, so that the answer is sure. Exits with 1 if
    there is a problem, which a line says how to solve; what is only missing is none.

    \b
    quintain doctor
    quintain doctor --json
    """
    findings = doctor_findings.collect()
    problems = [finding for finding in findings if finding.problem]
    if as_json:
        output.print_json({"is_healthy": not problems, "findings": findings})
    else:
        _print(findings)
    if problems:
        raise click.exceptions.Exit(_EXIT_PROBLEM)


def _print(findings: list[doctor_findings.Finding]) -> None:
    parts = list(dict.fromkeys(finding.part for finding in findings))
    for part in parts:
        click.echo(part)
        own = [finding for finding in findings if finding.part == part]
        output.print_fields({one.name: one.value or "-" for one in own}, indent="  ")
    problems = [finding for finding in findings if finding.problem]
    for finding in problems:
        click.echo(f"Problem: {finding.part}, {finding.name}: {finding.problem}", err=True)
    if not problems:
        click.echo("No problems.")
