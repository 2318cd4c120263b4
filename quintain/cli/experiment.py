"""`quintain experiment`: creates, shows and steers searches over hyperparameters."""

from typing import Final

import click

from quintain.cli.lazy_group import LazyGroup

_COMMANDS: Final = {
    "create": ("experiment_create:create", "Create an experiment, run it and follow it."),
    "preview": ("experiment_preview:preview", "Show what a search would do, without running it."),
    "list": ("experiment_lists:list_experiments", "List experiments."),
    "describe": ("experiment_lists:describe", "Show an experiment."),
    "list-trials": ("experiment_lists:list_trials", "List the trials of an experiment."),
    "list-checkpoints": (
        "experiment_lists:list_checkpoints",
        "List the checkpoints of an experiment.",
    ),
    "best": ("experiment_lists:best", "Show the best trials of an experiment."),
    "config": ("experiment_lists:config", "Print the config of an experiment."),
    "schema": (
        "experiment_schema:schema",
        "Write the JSON Schema of an experiment's file, for editors.",
    ),
    "download-model-def": (
        "experiment_lists:download_model_def",
        "Copy the code of an experiment.",
    ),
    "pause": ("experiment_commands:pause", "Save the trials and free their slots."),
    "activate": ("experiment_commands:activate", "Go on with a paused experiment."),
    "cancel": ("experiment_commands:cancel", "End an experiment; its trials save themselves."),
    "kill": ("experiment_commands:kill", "End an experiment at once."),
    "archive": ("experiment_commands:archive", "Leave an ended experiment out of lists."),
    "unarchive": ("experiment_commands:unarchive", "Show an archived experiment in lists again."),
    "delete": ("experiment_commands:delete", "Delete an ended experiment and its checkpoints."),
    "follow": (
        "experiment_commands:follow",
        "Show an experiment that runs in the background.",
    ),
    "wait": ("experiment_commands:wait", "Wait until an experiment has ended."),
    "fork": ("experiment_commands:fork", "Create an experiment from another one."),
    "continue": ("experiment_commands:continue_", "Go on with an ended experiment."),
    "label": ("experiment_settings:label", "Add labels to an experiment or remove them."),
    "set": ("experiment_settings:set_", "Change settings of an experiment while it runs."),
}


@click.group(
    cls=LazyGroup,
    commands_by_name={
        name: (f"quintain.cli.{place}", text) for name, (place, text) in _COMMANDS.items()
    },
)
def experiment() -> None:
    r"""Create, show and steer searches over hyperparameters.

    \b
    quintain experiment create adaptive.yaml model_dir/
    quintain experiment list
    quintain experiment best 1
    """
    from quintain.cli import logs

    logs.set_up(is_verbose=False)
