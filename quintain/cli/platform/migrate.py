"""`quintain migrate`: moves programs of PEDL, Determined and the Model Garden by their imports."""

import codecs
import dataclasses
import difflib
import pathlib
import subprocess
import tokenize
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click

from quintain import errors
from quintain.cli.lazy_group import FlagCommand, LazyGroup
from quintain.cli.platform import migrated_code, migrated_configs
from quintain.files import atomic_write
from quintain.records.config import foreign_imports, source_folders

BACKUP: Final = ".orig"
"""Ending of the copy of a file that git could not give back."""

_CONFIGS: Final = (".yaml", ".yml")
_ONLY_NAMED: Final = (".ipynb", ".sh")
_EXIT_LEFT: Final = 1


@dataclasses.dataclass(frozen=True)
class _Change:
    """A file and what becomes of it."""

    path: pathlib.Path
    before: bytes
    after: bytes
    notes: tuple[migrated_code.Note, ...]

    @property
    def is_changed(self) -> bool:
        return self.before != self.after


class _MigrateGroup(FlagCommand, LazyGroup):
    """Command on a path, and `certify OLD NEW`."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Returns a context of the command that is meant."""
        below = self.get_command(click.Context(self), args[0]) if args else None
        if below is not None:
            return below.make_context(f"{info_name} {args[0]}", args[1:], parent=parent, **extra)
        return super().make_context(info_name, args, parent=parent, **extra)


@click.command(
    cls=_MigrateGroup,
    invoke_without_command=True,
    no_args_is_help=False,
    context_settings={"allow_interspersed_args": True},
    subcommand_metavar="",
    sections={
        "Compare": {
            "certify": (
                "quintain.cli.platform.certify:certify",
                "Show that a port equals the older model, or where it differs first.",
            )
        }
    },
)
@click.argument("path", metavar="FILE|DIR", type=click.Path(exists=True, path_type=pathlib.Path))
@click.option("--dry-run", is_flag=True, help="Show what would change; write nothing.")
def migrate(path: pathlib.Path, dry_run: bool) -> None:
    r"""Move programs of PEDL, Determined and the Model Garden to Quintain.

    Imports of `pedl`, `determined`, `official`, `orbit` and `tensorflow_models` become Quintain's,
    and `tf_keras` becomes `tensorflow.keras`, in Python files, and in YAML and gin files where they
    name modules; `x.shape.as_list()` becomes `list(x.shape)`. Nothing else changes. What could not
    be moved is printed with file and line, and the exit code is 1 then.

    A file that git could not give back, because it is changed or in no repository, is kept with the
    ending .orig. Either all files are written, or none.

    \b
    quintain migrate my_project/ --dry-run
    quintain migrate my_project/
    quintain migrate certify old.py:build_model new.py:build_model --batch data.npz
    """
    changes = [_look_at(file) for file in _list_files(path)]
    changed = [change for change in changes if change.is_changed]
    if dry_run:
        for change in changed:
            click.echo(_describe_difference(change), nl=False)
    else:
        kept = _write(changed)
        for change in changed:
            copy = f", the former one is {change.path.name}{BACKUP}" if change.path in kept else ""
            click.echo(f"{change.path}: rewritten{copy}")
    if not changed:
        click.echo("Nothing to rewrite.")
    notes = [(change.path, note) for change in changes for note in change.notes]
    for file, note in notes:
        click.echo(f"{file}:{note.line}: {note.text}", err=True)
    if any(not note.text.endswith("has no effect here.") for _, note in notes):
        raise click.exceptions.Exit(_EXIT_LEFT)


def _list_files(path: pathlib.Path) -> Iterator[pathlib.Path]:
    if path.is_file():
        yield path
        return
    for file in source_folders.walk(path):
        if file.suffix in (".py", ".gin", *_CONFIGS, *_ONLY_NAMED) and not file.is_symlink():
            yield file


def _look_at(path: pathlib.Path) -> _Change:
    before = path.read_bytes()
    if not any(text.encode() in before for text in (*foreign_imports.ROOTS, ".as_list(")) and (
        path.suffix not in _CONFIGS
    ):
        return _Change(path, before, before, ())
    try:
        encoding = _find_encoding(path, before)
        source = before.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        note = migrated_code.Note(1, f"this can't be read as text, and was left alone: {error}")
        return _Change(path, before, before, (note,))
    moved = _migrate(path, source)
    return _Change(path, before, moved.text.encode(encoding), moved.notes)


def _find_encoding(path: pathlib.Path, content: bytes) -> str:
    """Returns the encoding; that of a file with a mark at its beginning keeps it."""
    if path.suffix == ".py":
        lines = iter(content.splitlines(keepends=True))
        return tokenize.detect_encoding(lambda: next(lines, b""))[0]
    return "utf-8-sig" if content.startswith(codecs.BOM_UTF8) else "utf-8"


def _migrate(path: pathlib.Path, source: str) -> migrated_code.Migrated:
    if path.suffix in _CONFIGS:
        return migrated_configs.migrate_yaml(source, path)
    if path.suffix == ".gin":
        return migrated_configs.migrate_gin(source)
    if path.suffix in _ONLY_NAMED:
        return migrated_configs.find_mentions(source)
    return migrated_code.migrate(source)


def _describe_difference(change: _Change) -> str:
    before, after = (text.decode(errors="replace") for text in (change.before, change.after))
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        str(change.path),
        str(change.path),
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _write(changes: Sequence[_Change]) -> set[pathlib.Path]:
    """Writes all files, or none of them.

    Returns:
        The files of which a copy was kept.

    Raises:
        ConfigError: If a copy would replace another file.
    """
    kept = {change.path for change in changes if not _is_in_git(change.path)}
    taken = [path for path in kept if _backup_of(path).exists()]
    if taken:
        raise errors.ConfigError(
            f"{_backup_of(taken[0])}: this is there already, and would be replaced. Remove it, or "
            f"commit {taken[0].name} to git, which makes a copy needless."
        )
    done: list[_Change] = []
    try:
        for change in changes:
            mode = change.path.stat().st_mode & 0o777
            if change.path in kept:
                atomic_write.write_atomically(_backup_of(change.path), change.before, mode=mode)
            atomic_write.write_atomically(change.path, change.after, mode=mode)
            done.append(change)
    except BaseException:
        for change in done:
            atomic_write.write_atomically(change.path, change.before, mode=0o644)
        for path in kept:
            _backup_of(path).unlink(missing_ok=True)
        raise
    return kept


def _backup_of(path: pathlib.Path) -> pathlib.Path:
    return path.with_name(path.name + BACKUP)


def _is_in_git(path: pathlib.Path) -> bool:
    """True if git has the file as it is."""
    command = ["git", "-C", str(path.resolve().parent)]
    try:
        known = subprocess.run(
            [*command, "ls-files", "--error-unmatch", path.name], capture_output=True, check=False
        )
        if known.returncode:
            return False
        changed = subprocess.run(
            [*command, "diff", "--quiet", "HEAD", "--", path.name], capture_output=True, check=False
        )
    except OSError:
        return False
    return changed.returncode == 0
