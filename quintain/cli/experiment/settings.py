"""`quintain experiment label|set`: changes what may be changed while an experiment runs."""

from typing import Any, Final, cast

import click

from quintain.cli import connect, output, record_ids
from quintain.cli.lazy_group import FlagCommand, LazyGroup
from quintain.records.rows import experiment


@click.group(cls=LazyGroup)
def label() -> None:
    """Add labels to an experiment or remove them."""


@label.command("add", cls=FlagCommand)
@record_ids.experiment_argument
@click.argument("labels", metavar="LABEL...", nargs=-1, required=True)
def add(experiment_id: int, labels: tuple[str, ...]) -> None:
    """Add labels."""
    with connect.open_client() as client:
        kept = client.get_experiment(experiment_id).labels
        changed = client.update_experiment(experiment_id, {"labels": sorted({*kept, *labels})})
    click.echo(f"Labels of experiment {experiment_id}: {', '.join(changed.labels)}")


@label.command("remove", cls=FlagCommand)
@record_ids.experiment_argument
@click.argument("labels", metavar="LABEL...", nargs=-1, required=True)
def remove(experiment_id: int, labels: tuple[str, ...]) -> None:
    """Remove labels."""
    with connect.open_client() as client:
        kept = client.get_experiment(experiment_id).labels
        missing = [name for name in labels if name not in kept]
        if missing:
            raise click.ClickException(
                f"Experiment {experiment_id} has no label {missing[0]!r}; it has "
                f"{', '.join(kept) or 'none'}."
            )
        changed = client.update_experiment(
            experiment_id, {"labels": [name for name in kept if name not in labels]}
        )
    click.echo(f"Labels of experiment {experiment_id}: {', '.join(changed.labels) or 'none'}")


@click.group("set", cls=LazyGroup)
def set_() -> None:
    """Change settings of an experiment while it runs."""


def _add_setting(name: str, field: str, kind: Any, text: str, metavar: str) -> None:
    """Adds `set NAME ID VALUE`."""

    def run(experiment_id: int, value: object) -> None:
        with connect.open_client() as client:
            client.update_experiment(experiment_id, cast(experiment.Changes, {field: value}))
        click.echo(f"{name} of experiment {experiment_id}: {output.format_value(value)}")

    run.__doc__ = text
    decorated = click.argument("value", metavar=metavar, type=kind)(run)
    decorated = record_ids.experiment_argument(decorated)
    set_.command(name, cls=FlagCommand)(decorated)


_SETTINGS: Final = (
    ("description", "description", str, "Set the description.", "TEXT"),
    (
        "weight",
        "weight",
        click.FloatRange(min=0, min_open=True),
        "Set the share of the slots, relative to other experiments.",
        "NUMBER",
    ),
    (
        "max-slots",
        "max_slots",
        click.IntRange(min=0),
        "Set the most slots that all trials together may hold; 0 for no limit.",
        "N",
    ),
    (
        "priority",
        "priority",
        click.IntRange(min=1, max=99),
        "Set the priority: 1 to 99, lower is sooner.",
        "N",
    ),
    (
        "max-trials",
        "max_trials",
        click.IntRange(min=1),
        "Set the number of trials, to make a search longer while it runs.",
        "N",
    ),
)
for _setting in _SETTINGS:
    _add_setting(*_setting)


@set_.command("gc-policy", cls=FlagCommand)
@record_ids.experiment_argument
@click.option("--save-experiment-best", type=click.IntRange(min=0), metavar="N")
@click.option("--save-trial-best", type=click.IntRange(min=0), metavar="N")
@click.option("--save-trial-latest", type=click.IntRange(min=0), metavar="N")
def gc_policy(experiment_id: int, **counts: int | None) -> None:
    """Set which checkpoints are kept; of an ended experiment the others are deleted now."""
    given = {name: count for name, count in counts.items() if count is not None}
    if not given:
        raise click.UsageError(
            f"Nothing to set, expected one or more of {', '.join('--' + name for name in counts)}."
        )
    with connect.open_client() as client:
        changed = client.update_experiment(experiment_id, {"checkpoint_storage": given})
    kept = changed.config["checkpoint_storage"]
    click.echo(
        f"Experiment {experiment_id} keeps: "
        + ", ".join(f"{name}={kept.get(name)}" for name in counts)
    )
