"""`quintain experiment`: creates, shows and steers searches over hyperparameters."""

from typing import Final

import click

from quintain.cli.lazy_group import LazyGroup

_SECTIONS: Final = {
    "Create": {
        "schema": ("schema:schema", "Write the JSON Schema of an experiment's file, for editors."),
        "preview": ("preview:preview", "Show what a search would do, without running it."),
        "create": ("create:create", "Create an experiment, run it and follow it."),
        "fork": ("commands:fork", "Create an experiment from another one."),
        "rewind": ("commands:rewind", "Go on from a trial with another method or space."),
        "extend": ("commands:extend", "Give an ended search more trials, or longer ones."),
        "continue": ("commands:continue_", "Go on with an ended experiment."),
    },
    "Look": {
        "list": ("lists:list_experiments", "List experiments."),
        "describe": ("lists:describe", "Show an experiment."),
        "follow": ("commands:follow", "Show an experiment that runs in the background."),
        "wait": ("commands:wait", "Wait until an experiment has ended."),
        "best": ("lists:best", "Show the best trials of an experiment."),
        "compare": ("compare:compare", "Say which of two is better, and how surely."),
        "pareto": ("pareto:pareto", "Show the trials that no other beats in all metrics."),
        "importance": ("trials:importance", "Show how much each hyperparameter decides."),
        "config": ("lists:config", "Print the config of an experiment."),
        "download-model-def": ("lists:download_model_def", "Copy the code of an experiment."),
        "export-data": ("export_data:export_data", "Write all that is known of it as files."),
    },
    "Steer": {
        "pause": ("commands:pause", "Save the trials and free their slots."),
        "activate": ("commands:activate", "Go on with a paused experiment."),
        "cancel": ("commands:cancel", "End an experiment; its trials save themselves."),
        "set": ("settings:set_", "Change settings of an experiment while it runs."),
        "label": ("settings:label", "Add labels to an experiment or remove them."),
        "archive": ("commands:archive", "Leave an ended experiment out of lists."),
        "unarchive": ("commands:unarchive", "Show an archived experiment in lists again."),
        "delete": ("commands:delete", "Delete an ended experiment and its checkpoints."),
    },
}


@click.group(
    cls=LazyGroup,
    sections={
        title: {name: (f"{__package__}.{place}", text) for name, (place, text) in section.items()}
        for title, section in _SECTIONS.items()
    },
    aliases={
        "kill": f"{__package__}.commands:kill",
        "list-checkpoints": "quintain.cli.platform.checkpoint:list_checkpoints",
        "list-trials": f"{__package__}.trials:list_trials",
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
