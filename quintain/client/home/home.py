"""The home directory of the platform, and how commands find the master that runs for it."""

import contextlib
import dataclasses
import json
import logging
import os
import pathlib
import stat
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from quintain import errors
from quintain.client.home import home_database, logins, master_file, master_lock
from quintain.files import atomic_write, changing_files, disk_errors

if TYPE_CHECKING:
    from quintain.client.home import token_files

logger = logging.getLogger(__name__)

HOME_VARIABLE: Final = "QUINTAIN_HOME"
"""Environment variable with the home directory."""

DEFAULT_HOME: Final = "~/.quintain"

TENSORBOARD: Final = "tensorboard"
"""Directory, beside the code of an experiment, with a directory of event files for each trial."""


@dataclasses.dataclass(frozen=True)
class Home:
    """Paths below the home directory."""

    path: pathlib.Path
    """The directory."""

    @property
    def database(self) -> home_database.Database:
        """The store: a file, or an address, which may hold a password.

        Raises:
            ConfigError: If what names it can't be understood.
        """
        return home_database.find(self.path)

    @property
    def checkpoints(self) -> pathlib.Path:
        """Default directory of checkpoints."""
        return self.path / "checkpoints"

    @property
    def experiments(self) -> pathlib.Path:
        """Copies of users' code."""
        return self.path / "experiments"

    @property
    def logs(self) -> pathlib.Path:
        """Logs of masters that run in the background."""
        return self.path / "logs"

    @property
    def server_file(self) -> pathlib.Path:
        """Port, and key of the tokens of trials' processes, which masters of this home hand on."""
        return self.path / "server.json"

    @property
    def agent_token(self) -> pathlib.Path:
        """Token of the agents of other machines; see `token_files`."""
        return self.path / "agent.token"

    @property
    def metrics_token(self) -> pathlib.Path:
        """Token of Prometheus servers, if somebody asked for one."""
        return self.path / "metrics.token"

    @property
    def user_token(self) -> pathlib.Path:
        """Token of the owner for other machines, if somebody asked for one."""
        return self.path / "user.token"

    @property
    def user_tokens(self) -> "token_files.UserTokens":
        """Tokens of all users of other machines."""
        from quintain.client.home import token_files  # noqa: PLC0415 - few commands need tokens

        return token_files.UserTokens(self.user_token, self.path / "users")

    @property
    def tls(self) -> pathlib.Path:
        """Directory with the certificate that the master has made for itself."""
        return self.path / "tls"

    @property
    def sessions_file(self) -> pathlib.Path:
        """Key of the cookies by which browsers are signed in."""
        return self.path / "sessions.json"

    @property
    def views_file(self) -> pathlib.Path:
        """Named views of the page."""
        return self.path / "views.json"

    @property
    def opening_file(self) -> pathlib.Path:
        """Leads a browser to the page, so that nobody sees the link among its arguments."""
        return self.path / "open-page.html"

    @property
    def socket(self) -> pathlib.Path:
        """Unix socket of the running master, for commands and trials of this machine."""
        return self.path / "master.sock"

    @property
    def address(self) -> str:
        """The same as an address to connect to."""
        return f"unix:{self.socket}"

    @property
    def resume_file(self) -> pathlib.Path:
        """Experiments that a master paused because it ended, for the next one to go on with."""
        return self.path / "resume.json"

    def create(self) -> None:
        """Makes the directory, and closes it to others if it was open to them.

        Raises:
            ConfigError: If it can't be made or written to, or belongs to another user.
        """
        with self._explained():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _make_private(self.path)
            self._check_owner()
            for directory in (self.checkpoints, self.experiments, self.logs):
                _make_private(directory)
            self._close_all()

    def close_to_others(self) -> None:
        """Does the same with what is there, and makes nothing.

        Whoever only reads finds nothing where a disk is not mounted, and leaves it like that.

        Raises:
            ConfigError: If it can't be closed, or belongs to another user.
        """
        with self._explained():
            if self.path.is_dir() and any(self.path.iterdir()):
                self._check_owner()
                self._close_all()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise errors.ConfigError(
                f"{HOME_VARIABLE}: got {str(self.path)!r}, which can't be used ({error}); expected "
                "a directory that can be written to."
            ) from error

    def _close_all(self) -> None:
        root = self.path.resolve()  # Others need no link to it.
        closed = [path for path in (root, *Home(root)._list_private()) if _close(path)]
        if closed:
            inner = [path.relative_to(root).as_posix() for path in closed if path != root]
            logger.warning(
                "%s could be read by other users of this machine. It is for its owner only now%s.",
                self.path,
                f", and so are in it {', '.join(inner)}" if inner else "",
            )

    def _check_owner(self) -> None:
        owner = self.path.stat().st_uid
        if owner != os.geteuid():
            raise errors.ConfigError(
                f"{HOME_VARIABLE}: got {str(self.path)!r}, which belongs to user {owner}, who "
                f"could change what runs there; expected a directory of user {os.geteuid()}. Run "
                "the command as its owner, or name another directory."
            )

    def _list_private(self) -> list[pathlib.Path]:
        """Returns what is in the directory and for nobody else, if it is there."""
        database = str(self.path / home_database.OWN_FILE)
        return [
            self.checkpoints,
            self.experiments,
            self.logs,
            self.path / "scratch",
            pathlib.Path(database),
            pathlib.Path(f"{database}-wal"),
            pathlib.Path(f"{database}-shm"),
            self.path / home_database.FILE_NAME,
            self.server_file,
            self.sessions_file,
            self.views_file,
            self.agent_token,
            self.metrics_token,
            self.user_token,
            self.path / "users",
            self.path / logins.FILE_NAME,
            self.tls,
            self.resume_file,
            self.path / master_lock.FILE_NAME,
            self.path / master_file.FILE_NAME,
            *changing_files.list_directory(self.logs),
        ]


def find_event_dir(model_dir: pathlib.Path | str, trial_id: int) -> pathlib.Path:
    """Returns the directory of the event files that a trial writes itself, beside its code."""
    return pathlib.Path(model_dir).parent / TENSORBOARD / str(trial_id)


def _make_private(directory: pathlib.Path) -> None:
    """Makes a directory for this user only, if it is not there, whatever the umask."""
    if not directory.is_dir():
        directory.mkdir(mode=0o700)
        directory.chmod(0o700)


def _close(path: pathlib.Path) -> bool:
    """Takes all permissions of others from a file or directory; returns whether they had any."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    if stat.S_ISLNK(found.st_mode) or not found.st_mode & 0o077:
        return False
    path.chmod(stat.S_IMODE(found.st_mode) & 0o700)
    return True


@contextlib.contextmanager
def write_privately() -> Iterator[None]:
    """Makes all files that this process and its children write be for their owner only."""
    former = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(former)


def find_home(path: str | None = None) -> Home:
    """Returns the home directory: the given one, `QUINTAIN_HOME`, or `~/.quintain`.

    Args:
        path: The directory, if it was given.
    """
    chosen = path or os.environ.get(HOME_VARIABLE) or DEFAULT_HOME
    return Home(pathlib.Path(chosen).expanduser().absolute())


def find_master(home: Home) -> master_file.MasterFile | logins.Login | None:
    """Returns where the master is that commands ask, or None if none runs.

    That is the one of another machine if somebody has logged in to it, or else that of the home
    directory.

    Raises:
        ConfigError: If what was noted of another machine can't be used.
        MasterUnreachableError: If the home's runs on another machine or in another container.
    """
    return logins.find(home.path) or find_own_master(home)


def find_own_master(home: Home) -> master_file.MasterFile | None:
    """Returns where the master of a home directory is, or None if none runs.

    What a killed master left behind, or a damaged file, counts as none.

    Raises:
        OSError: If the disk of the home is broken or gone.
        MasterUnreachableError: If it runs on another machine or in another container.
    """
    found = master_file.read(home.path)
    if found is not None and found.is_alive():
        return found
    holder = master_lock.find_elsewhere(home.path)
    if holder is not None:
        raise errors.MasterUnreachableError(
            f"The master of {home.path} runs elsewhere ({master_lock.describe(holder)}), and can "
            "be asked there only, unless it was started with --host. Use it there, end it, or give "
            f"this machine or container a home directory of its own ({HOME_VARIABLE}), where "
            "`quintain login` asks such a master."
        )
    return None


def remove_master(home: Home, pid: int) -> None:
    """Removes the file that says where the master is, if it is process `pid`.

    Where its disk is lost, or read-only, it stays: it says as well that this process has ended.
    """
    with contextlib.suppress(OSError):
        found = master_file.read(home.path)
        if found is not None and found.pid == pid:
            (home.path / master_file.FILE_NAME).unlink(missing_ok=True)


def write_private(path: pathlib.Path, content: Mapping[str, Any]) -> None:
    """Writes a JSON file that is there as a whole or not at all, readable by its owner only."""
    atomic_write.write_atomically(path, json.dumps(content), mode=0o600)


def read_own(path: pathlib.Path) -> Any:
    """Returns what a JSON file of the home holds, or None if it is missing.

    A file that was cut or damaged counts as missing; the log names it.
    """
    try:
        return disk_errors.read_json(path)
    except FileNotFoundError:
        return None
    except (OSError, errors.DamagedFileError) as error:
        logger.warning("%s", error)
        return None
