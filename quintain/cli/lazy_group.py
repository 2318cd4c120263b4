"""A click group whose commands are imported when they are called, and that knows typos."""

import importlib
from collections.abc import Mapping
from typing import Any, Final

import click
from click import shell_completion

from quintain import errors

ARGUMENTS_KEY: Final = "quintain.arguments"
"""Where a command's context keeps the arguments as they were given, in its `meta`."""

FLAG_ALIASES: Final = {"--no-follow": "--detach", "--output-dir": "--output"}
"""Names of flags that help does not show, with those that it shows."""


class LazyGroup(click.Group):
    """A group of commands given as `module:attribute`, with a line of help each.

    Listing the commands imports none of them. Help lists them by section, in the order given; those
    that are added to the group itself are under `Commands`.
    """

    def __init__(
        self,
        *args: Any,
        sections: Mapping[str, Mapping[str, tuple[str, str]]] | None = None,
        aliases: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        """Stores the commands.

        Args:
            *args: Arguments of a click group.
            sections: `module:attribute` and one line of help, by section and the command's name.
            aliases: `module:attribute` of commands that help does not list, by name.
            **kwargs: Arguments of a click group.
        """
        super().__init__(*args, **kwargs)
        self.help = _keep_lines(self.help)
        self._sections = sections or {}
        self._places = {
            name: place
            for section in self._sections.values()
            for name, (place, _) in section.items()
        }
        self._hidden_places = aliases or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names of all commands, in the order of use."""
        return [*self.commands, *self._places]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports a command."""
        place = self._places.get(cmd_name) or self._hidden_places.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = place.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command), f"{module}:{attribute} is no command"
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command, or names the nearest one."""
        name = args[0]
        known = self.list_commands(ctx)
        is_known = name in known or name in self._hidden_places
        if not (is_known or name.startswith("-") or ctx.resilient_parsing):
            raise click.UsageError(
                f"No such command {name!r}.{errors.suggest(name, known)} "
                f"Commands: {', '.join(known)}.",
                ctx,
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands with their help, without importing them."""
        for title, rows in self._list_rows().items():
            with formatter.section(title):
                formatter.write_dl(rows)

    def shell_complete(
        self, ctx: click.Context, incomplete: str
    ) -> list[shell_completion.CompletionItem]:
        """Completes the name of a command without importing any, or an option."""
        names = [
            shell_completion.CompletionItem(name, help=text)
            for rows in self._list_rows().values()
            for name, text in rows
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def _list_rows(self) -> dict[str, list[tuple[str, str]]]:
        """Returns names and help of the commands by section."""
        rows = {
            title: [(name, text) for name, (_, text) in section.items()]
            for title, section in self._sections.items()
        }
        own = [
            (name, command.get_short_help_str(limit=200)) for name, command in self.commands.items()
        ]
        if own:
            rows["Commands"] = own + rows.get("Commands", [])
        return rows


class FlagCommand(click.Command):
    """A command whose flags, declared with dashes, may be written with underscores, too.

    It has `--traceback`, which the border of the process looks for.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes the arguments of a click command."""
        super().__init__(*args, **kwargs)
        self.help = _keep_lines(self.help)
        text = "Show where in the program an error arose."
        self.params.append(
            click.Option(["--traceback"], is_flag=True, expose_value=False, help=text)
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the flags; a misspelt one names the nearest."""
        end = args.index("--") if "--" in args else len(args)  # What follows is no flag.
        args = [_spell(argument) for argument in args[:end]] + args[end:]
        ctx.meta[ARGUMENTS_KEY] = list(args)  # Click takes them out of its own list.
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            known = [name for option in self.params for name in option.opts]
            hint = errors.suggest(error.option_name, known)
            raise click.UsageError(f"No such flag {error.option_name!r}.{hint}", ctx) from error


def _keep_lines(text: str | None) -> str | None:
    r"""Turns a line with only `\b` into the character by which click keeps lines as they are.

    Docstrings with a backslash are raw, so that they hold two characters instead.
    """
    return None if text is None else text.replace("\\b\n", "\b\n")


def _spell(argument: str) -> str:
    """Turns `--model_dir=a_b` into `--model-dir=a_b`, and another name of a flag into its own."""
    if not argument.startswith("--"):
        return argument
    name, sign, value = argument.partition("=")
    name = name.replace("_", "-")
    return FLAG_ALIASES.get(name, name) + sign + value


@shell_completion.add_completion_class
class BashComplete(shell_completion.BashComplete):
    """Completion for bash, which makes three words of `--option=value`."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Returns the words before the one that is completed, and that one."""
        words, begun = super().get_completion_args()
        return [word for word in words if word != "="], begun
