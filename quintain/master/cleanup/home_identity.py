"""Identity of a home directory, and its match with a database.

Each home has a name that is made once. It is kept in the home directory (`home.json`), in the
database, and in the manifest of each checkpoint. So a database that was lost, or that is another
home's, is recognised before anything is done by it.

`home.json` has the place of the home as well. A home that is elsewhere now was moved, and keeps its
name; if the other one is still at the former place, it is a copy, and gets a name of its own:
checkpoints outside of the two homes are the original's, which the copy reads and never deletes. The
copy notes itself in the original (`copies.json`), which keeps them as long as the copy is there.
"""

import contextlib
import json
import logging
import os
import pathlib
import shlex
import time
import uuid
from typing import Any, Final

from quintain import errors
from quintain.client.home import home_database
from quintain.files import atomic_write, changing_files, disk_errors
from quintain.store import store as store_lib

logger = logging.getLogger(__name__)

FILE_NAME: Final = "home.json"
_COPIES_NAME: Final = "copies.json"


def claim(
    home: pathlib.Path, store: "store_lib.Store", *, accept_new_database: bool = False
) -> str:
    """Returns the name of a home after it was made sure that the database is this home's.

    Args:
        home: The home directory.
        store: The database.
        accept_new_database: Whether the database becomes this home's even if it knows nothing of
            the checkpoints that are there. One that is another home's never does.

    Raises:
        StateError: If checkpoints are there and the database is empty, or if it is another home's.
    """
    if damage := _read(home)[1]:
        logger.warning("The name of the home can't be read: %s", damage)
    original = find_original(home)
    if original is not None and _has_own_database(home, store):
        return _name_copy(home, store, original)
    problem = find_mismatch(home, store)
    with store.reading() as session:
        named = session.get_home_id()
    if problem and read_id(home) is not None and is_foreign(home, named):
        raise errors.StateError(f"{problem} Nothing was started or deleted.")
    if problem and not accept_new_database:
        raise errors.StateError(
            f"{problem} Nothing was started or deleted. Stop here and put the right database in "
            "its place, if you have a copy; or go on with this one by `quintain master start "
            "--new-database`: the checkpoints stay where they are, and `quintain checkpoint "
            "orphans` lists them."
        )
    if problem:
        # A name of its own, so that it is not taken for that of the checkpoints which are there.
        own = read_id(home)
        home_id = named if named is not None and named != own else _new_id()
        logger.warning("%s It becomes the database of this home.", problem)
    else:
        home_id = named or read_id(home) or _new_id()
    if read_id(home) != home_id or _read_place(home) != _find_place(home):
        _write(home, home_id, _find_place(home))
    if named != home_id:
        with store.transaction() as session:
            session.set_home_id(home_id)
    return home_id


def find_original(home: pathlib.Path) -> pathlib.Path | None:
    """Returns the home of which one is a copy, or None if it is none, or that one is gone."""
    place = _read_place(home)
    if place is None or place == _find_place(home):
        return None
    original = pathlib.Path(place)
    with contextlib.suppress(OSError):
        # One home may have two paths.
        if not os.path.samefile(original, home) and read_id(original) in read_ids(home):
            return original
    return None


def _name_copy(home: pathlib.Path, store: "store_lib.Store", original: pathlib.Path) -> str:
    """Gives a copy a name of its own, and lets go of what is the original's; returns the name."""
    home_id = _new_id()
    _note_copy(original, home, home_id)
    # With the former place it is still a copy if it ends here.
    _write(home, home_id, str(original))
    with store.transaction() as session:
        session.set_home_id(home_id)
        for run in session.list_launches():
            session.delete_launch(run.launch_id)
        noted = session.list_deletions()
        session.remove_deletions([each.id for each in noted if not is_inside(home, each.root)])
    _write(home, home_id, _find_place(home))
    logger.warning(
        "%s is a copy of the home %s, which is still there, and gets a name of its own (%s). "
        "Neither deletes the checkpoints outside of the homes that both know.",
        home,
        original,
        home_id,
    )
    return home_id


def find_copies(home: pathlib.Path) -> dict[str, float]:
    """Returns the places of copies of a home that are there, and when they became homes.

    What the home had at that time outside of itself, they know as well.
    """
    noted: Any = None
    with contextlib.suppress(OSError, errors.DamagedFileError):
        noted = disk_errors.read_json(home / _COPIES_NAME)
    return {
        str(place): float(each["time"])
        for place, each in (noted if isinstance(noted, dict) else {}).items()
        if str(each["home_id"]) in read_ids(pathlib.Path(place))
    }


def _note_copy(original: pathlib.Path, home: pathlib.Path, home_id: str) -> None:
    path = original / _COPIES_NAME
    noted: Any = None
    try:
        with contextlib.suppress(FileNotFoundError, errors.DamagedFileError):
            noted = disk_errors.read_json(path)
        content = noted if isinstance(noted, dict) else {}
        content[_find_place(home)] = {"home_id": home_id, "time": time.time()}
        atomic_write.write_atomically(path, f"{json.dumps(content)}\n", mode=0o600)
    except OSError as error:
        logger.warning(
            "%s does not know of its copy %s (%s): it may delete checkpoints outside of the homes "
            "that the copy needs.",
            original,
            home,
            error,
        )


def _has_own_database(home: pathlib.Path, store: "store_lib.Store") -> bool:
    """Returns whether the database is in the home, so that a copy of the home has a copy of it."""
    with contextlib.suppress(OSError):
        return os.path.samefile(store.place, home / home_database.OWN_FILE)
    return False


def is_inside(home: pathlib.Path, root: str) -> bool:
    """Returns whether a directory that a note names is part of the home, and of its copies."""
    path = home / root
    return "://" not in root and path.resolve().is_relative_to(home.resolve())


def find_mismatch(home: pathlib.Path, store: store_lib.Store) -> str:
    """Returns why a database can't be that of a home, or an empty text if it may be."""
    with store.reading() as session:
        named = session.get_home_id()
        is_empty = not session.has_experiments()
        last_id = session.get_last_experiment_id()
    own = read_id(home)
    if own is not None and is_foreign(home, named):
        return (
            f"{home}: the database is that of another home ({named}, expected {own}), where code "
            f"and checkpoints of its experiments are. {_explain_foreign(home, named)}"
        )
    if named is not None and own is not None and named != own:
        return f"{home}: the database is of a time before this home got a new one."
    directory = home / "checkpoints"
    count = _count_newer(directory, own, last_id) if is_empty and directory.is_dir() else 0
    if count:
        return (
            f"{home}: the database has no experiment, but {count} checkpoints are in {directory}. "
            "It is new, or an old copy; the one that knows them is not there."
        )
    return ""


def find_rebinding(
    home: pathlib.Path, database: home_database.Database, store: store_lib.Store
) -> str:
    """Returns why a home can't go over to a database, or an empty text if it may.

    It may if it had none, or has that one, or a copy of that one.

    Args:
        home: The home directory.
        database: The database that was named.
        store: The same, opened.
    """
    try:
        former = home_database.find_former(home)
    except errors.ConfigError as error:
        # The names of home and database, which are compared later, say whether they fit.
        logger.warning("%s", error)
        former = None
    own = read_id(home)
    if former is not None and home_database.are_same(former, database):
        return ""
    if former is None and (own is not None or not isinstance(database, str)):
        return ""
    with store.reading() as session:
        named = session.get_home_id()
    if named == own or (named is None and _is_unused(former)):
        return ""
    place = home_database.describe(database)
    if former is None:
        return (
            f"{home} is a new home directory, but {place} is the database of another one ({named}),"
            f" where code and checkpoints of its experiments are. {_explain_foreign(home, named)}"
        )
    kept = home_database.describe(former)
    if named is None:
        rest = (
            f"is empty. Without that it goes on with {kept}; `quintain store copy "
            f"{shlex.quote(kept)} {shlex.quote(place)}` takes its experiments over."
        )
    else:
        rest = (
            f"is that of another home ({named}), where code and checkpoints of its experiments "
            f"are. Without that it goes on with {kept}; else name an empty database. "
            f"{_explain_foreign(home, named)}"
        )
    return (
        f"{home} has its experiments in {kept}, but {place} was named ({home_database.VARIABLE} or "
        f"--database), which {rest}"
    )


def is_foreign(home: pathlib.Path, named: str | None) -> bool:
    """Returns whether a database is another home's, which this one never takes from it."""
    if named is None or named in read_ids(home):
        return False
    return named not in _find_writers(home / "checkpoints")


def read_id(home: pathlib.Path) -> str | None:
    """Returns the name that a home directory has, or None if it has none that can be read."""
    return next(iter(read_ids(home)), None)


def read_ids(home: pathlib.Path) -> list[str]:
    """Returns the name that a home directory has, and then those that it had before."""
    return _read(home)[0]


def _find_place(home: pathlib.Path) -> str:
    return str(home.resolve())


def _read_place(home: pathlib.Path) -> str | None:
    """Returns where a home was when its last master started; None if that is not known."""
    content: Any = None
    with contextlib.suppress(OSError, errors.DamagedFileError):
        content = disk_errors.read_json(home / FILE_NAME)
    place = content.get("place") if isinstance(content, dict) else None
    return place if isinstance(place, str) else None


def _write(home: pathlib.Path, home_id: str, place: str) -> None:
    former = [each for each in read_ids(home) if each != home_id]
    content = json.dumps({"home_id": home_id, "former_ids": former, "place": place})
    atomic_write.write_atomically(home / FILE_NAME, f"{content}\n", mode=0o600)


def _read(home: pathlib.Path) -> tuple[list[str], str]:
    """Returns the names of a home, and why they can't be read."""
    try:
        content = disk_errors.read_json(home / FILE_NAME)
        return [str(each) for each in (content["home_id"], *content.get("former_ids", ()))], ""
    except FileNotFoundError:
        return [], ""
    except errors.DamagedFileError as error:
        return [], str(error)
    except (KeyError, TypeError, AttributeError):
        return [], f"{home / FILE_NAME}: it holds none"


def _explain_foreign(home: pathlib.Path, named: str | None) -> str:
    content = json.dumps({"home_id": named})
    return (
        "Use that home (QUINTAIN_HOME), or another database. If it is lost for good, this one "
        f"takes its place with {content} in {home / FILE_NAME}."
    )


def _is_unused(former: home_database.Database | None) -> bool:
    """Returns whether a file never had an experiment."""
    if not isinstance(former, pathlib.Path):
        return former is None
    with contextlib.closing(store_lib.open_to_read(former)) as store, store.reading() as session:
        return session.get_last_experiment_id() == 0


def _find_writers(directory: pathlib.Path) -> set[str]:
    """Returns the homes whose checkpoints are in a directory."""
    from quintain.records import checkpoint_manifest  # noqa: PLC0415 - few homes are in doubt

    found = set()
    for path in changing_files.list_directory(directory):
        with contextlib.suppress(errors.CheckpointError):
            found.add(checkpoint_manifest.read(path).home_id)
    return found


def _count_newer(directory: pathlib.Path, home_id: str | None, last_id: int) -> int:
    """Returns how many checkpoints there are of experiments that a database never had."""
    from quintain.records import checkpoint_manifest  # noqa: PLC0415 - few homes are in doubt

    count = 0
    for path in changing_files.list_directory(directory):
        if (path / checkpoint_manifest.FILE_NAME).is_file():
            try:
                found = checkpoint_manifest.read(path)
            except errors.CheckpointError as error:
                # A process that runs on may just have given it another name.
                count += not (error.__cause__ and changing_files.is_gone(error.__cause__))
                continue
            is_own = home_id is None or found.home_id in ("", home_id)
            count += is_own and found.experiment_id > last_id
    return count


def _new_id() -> str:
    return str(uuid.uuid4())
