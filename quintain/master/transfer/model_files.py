"""Copies of users' model directories, made when an experiment is created.

A directory may be anything: one with links that lead in circles or out of it, with sockets and
pipes, with data of terabytes, or one that changes while it is copied. So links are copied as links
and never followed, only plain files are opened, and the number of files and bytes is limited. What
`.gitignore` files name is left out, what `.quintainignore` names, and what is no code of the user's
(`source_folders`); in `.quintainignore`, `!name` takes something back.
"""

import collections
import contextlib
import dataclasses
import os
import pathlib
import posixpath
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pathspec
import re2
from pathspec.patterns.gitignore import spec as gitignore

from quintain import errors
from quintain.files import atomic_write, changing_files
from quintain.records.config import experiment_sections, source_folders
from quintain.store import database_errors

NAME: Final = "model_dir"
"""Name of the copy in the directory of its experiment."""

IGNORE_FILES: Final = (".quintainignore", ".detignore", ".pedlignore")
"""Files that say what is left out, in the syntax of `.gitignore`; the first one found counts."""

MAX_DEPTH: Final = 100
"""Most parts of a path in a model directory. Python recurses into directories in places."""

_GIT_FILE: Final = ".gitignore"
_NOT_UTF8: Final = {0xDC00 + byte: 0x100000 + byte for byte in range(0x80, 0x100)}
"""Bytes that are no UTF-8, as Python's names of files have them, as RE2 takes them."""

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 2**20

_NUM_NAMED: Final = 3
_PIECE_BYTES: Final = 2**20
_STAGING: Final = ".incomplete"


class _Pattern(gitignore.GitIgnoreSpecPattern):
    """A line of an ignore file, matched by RE2.

    Python's engine backtracks: `*a*a*a*a*a*b` could take years for a long name, and the master with
    it.
    """

    def __init__(self, line: Any, include: bool | None = None) -> None:
        super().__init__(line, include)
        if self.regex is not None:
            try:
                self.regex = re2.compile(self.regex.pattern, _OPTIONS)
            except re2.error as error:
                raise ValueError(f"{errors.show(line)} is too large for a pattern.") from error


class _Spec:
    """The patterns of an ignore file.

    Raises:
        ValueError: If one is malformed or too large.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        texts = [line.translate(_NOT_UTF8) for line in lines]
        # Not the backend "re2", a set of all patterns: 2,000 are too many for its memory.
        self._spec = pathspec.GitIgnoreSpec.from_lines(texts, _Pattern, backend="simple")

    def check(self, path: str) -> bool | None:
        """Returns whether a path is left out, or None if no pattern says so or not."""
        return self._spec.check_file(path.translate(_NOT_UTF8)).include


_NONE: Final = _Spec(())


@dataclasses.dataclass
class Listing:
    """Files of a directory that are copied, and those that are not."""

    files: dict[str, int] = dataclasses.field(default_factory=dict)
    """Bytes of each plain file, by its path with `/`, relative to the directory."""

    links: dict[str, str] = dataclasses.field(default_factory=dict)
    """Targets of the links by their paths; each relative, and inside of the directory."""

    left_out: list[str] = dataclasses.field(default_factory=list)
    """What ignore files name, directories with a `/` at the end and without what is in them."""

    def leaves_out(self, path: str, rules: "_Rules", *, by_default: bool = False) -> bool:
        """Returns whether a path is left out, and notes it unless nobody misses it."""
        if not rules.is_ignored(path, by_default=by_default):
            return False
        is_folder, name = path.endswith("/"), posixpath.basename(path.rstrip("/"))
        if not (is_folder and name in source_folders.TOOL_FOLDERS):
            self.left_out.append(path)
        return True


@dataclasses.dataclass(frozen=True)
class _Patterns:
    """Patterns of one ignore file."""

    spec: _Spec
    """The patterns."""

    base: str = ""
    """Directory of the file, relative to the model directory."""

    prefix: str = ""
    """The model directory, relative to that of the file."""

    def check(self, path: str) -> bool | None:
        """Returns whether a path is left out, or None if the file does not say."""
        return self.spec.check(self.prefix + path.removeprefix(self.base))


class _Rules:
    """Ignore rules, at one place of the tree."""

    def __init__(self, own: _Patterns, git: tuple[_Patterns, ...] = ()) -> None:
        self._own = own
        self._git = git

    def enter(self, folder: pathlib.Path, base: str) -> "_Rules":
        """Returns the rules for what is in a directory."""
        found = _read_patterns(folder / _GIT_FILE, base)
        return self if found is None else _Rules(self._own, (*self._git, found))

    def is_ignored(self, path: str, *, by_default: bool) -> bool:
        """Returns whether a path is left out; that of a directory ends in `/`."""
        for patterns in (self._own, *reversed(self._git)):
            decision = patterns.check(path)
            if decision is not None:
                return decision
        return by_default


def list_files(
    source: pathlib.Path, limits: experiment_sections.CodeConfig, *, has_rules: bool = True
) -> Listing:
    """Returns what is to be copied of a model directory.

    Args:
        source: The directory.
        limits: How much it may be.
        has_rules: Whether ignore files count; not in what is such a copy itself.

    Raises:
        ConfigError: If the directory is missing, too large, too deep or can't be read, or a link
            leads out of it.
    """
    if not os.path.isdir(source):  # Nor if it may not be looked at.
        raise errors.ConfigError(f"model_dir: {str(source)!r} is not a directory.")
    rules = _find_rules(source) if has_rules else _Rules(_Patterns(_NONE))
    listing = Listing()
    pending = [("", rules)]
    num_seen = 0
    while pending:
        base, rules = pending.pop()
        _check_depth(source, base)
        if has_rules:
            rules = rules.enter(source / base, base)
        # What is there may change meanwhile.
        passing = changing_files.missing_files_skipped() if base else contextlib.nullcontext()
        with _errors_explained(source / base), passing, os.scandir(source / base) as entries:
            for entry in entries:
                num_seen += 1
                if num_seen > limits.max_files:
                    raise _too_large(source, listing, limits, f"more than {limits.max_files} files")
                path = base + entry.name
                if entry.is_dir(follow_symlinks=False):
                    by_default = has_rules and source_folders.is_pruned(entry)
                    if not listing.leaves_out(f"{path}/", rules, by_default=by_default):
                        pending.append((f"{path}/", rules))
                elif not listing.leaves_out(path, rules):
                    with changing_files.missing_files_skipped():
                        _add(listing, path, entry, source)
    if sum(listing.files.values()) > limits.max_mib * 2**20:
        size = f"{sum(listing.files.values()) / 2**20:.1f} MiB"
        raise _too_large(source, listing, limits, size)
    return listing


def _check_depth(source: pathlib.Path, base: str) -> None:
    if base.count("/") >= MAX_DEPTH:
        raise errors.ConfigError(
            f"model_dir: {str(source / base)[:200]!r} has directories more than {MAX_DEPTH} "
            f"levels deep. Name them in {IGNORE_FILES[0]} if they are not needed."
        )


def _add(listing: Listing, path: str, entry: os.DirEntry[str], source: pathlib.Path) -> None:
    """Adds what is no directory."""
    if entry.is_symlink():
        listing.links[path] = _find_target(source, path)
    elif entry.is_file(follow_symlinks=False):
        _check_name(source, path)
        listing.files[path] = entry.stat(follow_symlinks=False).st_size


def copy_model_dir(
    source: pathlib.Path,
    target: pathlib.Path,
    limits: experiment_sections.CodeConfig,
    *,
    has_rules: bool = True,
) -> Listing:
    """Copies a model directory, without what ignore files name.

    A file that grows meanwhile is copied up to the size it had, one that vanishes is not there.

    Args:
        source: The user's directory.
        target: The copy, which must not exist.
        limits: How much it may be.
        has_rules: As for `list_files`.

    Returns:
        What was copied, and what was left out.

    Raises:
        ConfigError: As `list_files` does.
    """
    listing = list_files(source, limits, has_rules=has_rules)
    target.mkdir(parents=True)
    for path, num_bytes in listing.files.items():
        copy = target / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        with _errors_explained(source / path, copy):
            _copy_file(source / path, copy, num_bytes)
    for path, link in listing.links.items():
        copy = target / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.symlink_to(link)
    with _errors_explained(source, target):
        atomic_write.sync_tree(target)
    return listing


def move_model_dir(
    source: pathlib.Path, target: pathlib.Path, limits: experiment_sections.CodeConfig
) -> None:
    """Moves a model directory that was sent, which ignore files have no say in.

    Args:
        source: The directory, on the disk of the target.
        target: Its new place, which must not exist.
        limits: How much it may be.

    Raises:
        ConfigError: As `list_files` does.
    """
    list_files(source, limits, has_rules=False)
    with _errors_explained(source, target):
        source.rename(target)
        atomic_write.sync_tree(target)


def find_staging(home: pathlib.Path) -> pathlib.Path:
    """Returns the directory of what is not complete; a new master empties it."""
    return home / "experiments" / _STAGING


@contextlib.contextmanager
def staging(home: pathlib.Path) -> Iterator[pathlib.Path]:
    """Gives an empty directory for what becomes that of an experiment when it is complete."""
    scratch = find_staging(home) / uuid.uuid4().hex
    scratch.mkdir(parents=True)
    try:
        yield scratch
    finally:
        # What can't be deleted now, the next master deletes.
        shutil.rmtree(scratch, ignore_errors=True)


def clear_staging(home: pathlib.Path) -> None:
    """Deletes what a killed master had not completed; called before anything is staged."""
    if find_staging(home).exists():
        shutil.rmtree(find_staging(home))


def choose_place(home: pathlib.Path, experiment_id: int) -> pathlib.Path:
    """Returns the directory of a new experiment, which is not there yet.

    Where the store was lost, directories of experiments that it does not know may have the number.
    """
    target = home / "experiments" / str(experiment_id)
    if target.exists():
        target = target.with_name(f"{experiment_id}-{uuid.uuid4().hex[:8]}")
    return target


def _copy_file(source: pathlib.Path, target: pathlib.Path, num_bytes: int) -> None:
    # If it has become a pipe meanwhile, opening it must not wait; if a link, not lead elsewhere.
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return
        with open(target, "wb") as copy:
            while num_bytes > 0 and (data := file.read(min(num_bytes, _PIECE_BYTES))):
                copy.write(data)
                num_bytes -= len(data)
    os.chmod(target, stat.S_IMODE(status.st_mode) | stat.S_IRUSR | stat.S_IWUSR)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _find_rules(source: pathlib.Path) -> _Rules:
    """Returns the rules that hold for the whole directory.

    Those of a repository around it count as well, but for files that would leave out the directory
    itself: it was asked for.
    """
    found = (_read_patterns(source / name, "") for name in IGNORE_FILES)
    own = next((one for one in found if one is not None), _Patterns(_NONE))
    directory = source.resolve()
    chain = [directory, *directory.parents]
    root = next((up for up in chain if (up / ".git").exists()), directory)
    git = []
    for up in reversed(chain[1 : chain.index(root) + 1]):
        prefix = f"{directory.relative_to(up).as_posix()}/"
        patterns = _read_patterns(up / _GIT_FILE, "")
        if patterns is not None and not patterns.spec.check(prefix):
            git.append(_Patterns(patterns.spec, prefix=prefix))
    return _Rules(own, tuple(git))


def _read_patterns(file: pathlib.Path, base: str) -> _Patterns | None:
    """Returns what an ignore file says, or None if there is none."""
    if not file.is_file():
        return None
    with _errors_explained(file):
        lines = file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    try:
        return _Patterns(_Spec(lines), base)
    except ValueError as error:
        raise errors.ConfigError(f"{file}: {error}") from error


def _find_target(source: pathlib.Path, path: str) -> str:
    """Returns where a link leads, relative to it.

    Raises:
        ConfigError: If that is not in the directory.
    """
    link = source / path
    given = os.readlink(link)
    folder = os.path.realpath(link.parent)
    # Only its own step counts: what it leads to may be a link again, which is looked at itself.
    target = os.path.normpath(os.path.join(folder, given))
    root = os.path.realpath(source)
    if os.path.commonpath((root, target)) != root:
        raise errors.ConfigError(
            f"model_dir: {str(link)!r} is a link that leads out of the directory, to {given!r}. "
            f"Copy the files there, or name the link in {IGNORE_FILES[0]} and give the code the "
            "absolute path."
        )
    _check_name(source, path)
    return os.path.relpath(target, folder)


def _check_name(source: pathlib.Path, path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise errors.ConfigError(
            f"model_dir: {os.fsencode(source / path)!r}: its name is no UTF-8. Rename it, or leave "
            f"it out by a pattern in {IGNORE_FILES[0]}."
        ) from error


def _too_large(
    source: pathlib.Path, listing: Listing, limits: experiment_sections.CodeConfig, size: str
) -> errors.ConfigError:
    """Returns an error that names what is largest: by bytes, and by the number of files."""
    sizes: collections.Counter[str] = collections.Counter()
    counts: collections.Counter[str] = collections.Counter()
    for path, num_bytes in listing.files.items():
        top, slash, _ = path.partition("/")
        sizes[top + slash] += num_bytes
        counts[top + slash] += 1
    shown = dict.fromkeys(
        name for counter in (sizes, counts) for name, _ in counter.most_common(_NUM_NAMED)
    )
    largest = ", ".join(
        f"{name} ({counts[name]} files, {sizes[name] / 2**20:.1f} MiB)" for name in shown
    )
    return errors.ConfigError(
        f"model_dir: {str(source)!r} has {size}, expected at most {limits.max_files} files "
        f"(code.max_files) and {limits.max_mib} MiB (code.max_mib). Name what is not needed in "
        f"{IGNORE_FILES[0]}; the largest seen: {largest}."
    )


@contextlib.contextmanager
def _errors_explained(path: pathlib.Path, copy: pathlib.Path | None = None) -> Iterator[None]:
    """Turns an error of the system into one that names a path of the user's.

    The disk of the copy may be full or lost as well; that is no mistake in the directory.
    """
    try:
        yield
    except OSError as error:
        if copy is not None and error.filename != str(path):
            lost = database_errors.explain_disk(error, str(copy))
            if lost is not None:
                raise lost from error
        raise errors.ConfigError(
            f"model_dir: {str(path)!r} can't be read ({error.strerror}). If it is not needed, name "
            f"it in {IGNORE_FILES[0]}."
        ) from error
