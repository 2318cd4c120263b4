"""`quintain completion`: prints the script by which a shell completes commands and values."""

import click
from click import shell_completion

from quintain.cli.lazy_group import FlagCommand


@click.command(cls=FlagCommand)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    r"""Print the script by which a shell completes commands, options, experiments and ids.

    \b
    eval "$(quintain completion bash)"              (in ~/.bashrc; zsh: in ~/.zshrc)
    quintain completion fish > ~/.config/fish/completions/quintain.fish
    """
    kind = shell_completion.get_completion_class(shell)
    assert kind is not None, f"click completes in {shell}"
    root = context.find_root().command
    click.echo(kind(root, {}, "quintain", "_QUINTAIN_COMPLETE").source())
