"""Protocol between agents and the master.

An agent registers, and gets a session. With it, it asks for orders, which the master answers when
it has some, and sends reports. All of it may be repeated:

- Orders are numbered. Those that an agent has carried out are those up to the number `after` by
  which it asks for further ones; all others are given again.
- Reports are numbered. One that was received already is answered like a new one.
- Lines of logs have positions: an agent goes on after those that the master has received
  (`Welcome.offsets`), and notes as kept only what the master has stored (`Orders.kept`).
- An exit is told in each session anew until the master orders to drop the launch.

A session ends when the agent or the master is restarted, or when nothing was heard of the agent for
so long that its launches were given up. Then the agent registers again and says which launches it
has; what the master does not know is dropped.
"""

import dataclasses
import enum
import re
import sys
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

import pydantic

import quintain
from quintain import errors
from quintain.master.processes import launcher
from quintain.records.rows import log, slot

PROTOCOL: Final = 1
"""Number of this protocol. Agents and master have the same."""

PATH: Final = "/api/v1/agents"

MAX_WAIT_SECS: Final = 60.0
"""Longest time that a request for orders waits."""

MOST_SLOTS: Final = 4096
MOST_LABELS: Final = 100

_MOST_PROBLEMS: Final = 10

T = TypeVar("T")

# What a machine tells may be of anybody: all of it has bounds.
_Name = Annotated[str, pydantic.StringConstraints(max_length=300)]
_Text = Annotated[str, pydantic.StringConstraints(max_length=100_000)]
_LaunchId = Annotated[
    str, pydantic.StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z._-]{0,199}$")
]
_Count = Annotated[int, pydantic.Field(ge=0, lt=2**63)]
_Secs = Annotated[pydantic.FiniteFloat, pydantic.Field(ge=0.0, le=253_402_300_799.0)]
"""Seconds since the epoch, up to the year 9999."""

_MOST_LAUNCHES: Final = 100_000
_MOST_LINES: Final = 1000
_MOST_VALUES: Final = 100
_MOST_THREADS: Final = 65_536
_MOST_DEVICE: Final = 300
_Usage = Annotated[Mapping[_Name, pydantic.FiniteFloat], pydantic.Field(max_length=_MOST_VALUES)]

_RESERVED: Final = "master"
"""What the machine of the master is called where people read it."""

_ALLOWED_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclasses.dataclass(frozen=True, slots=True)
class Versions:
    """Versions that have to be the same on both sides."""

    protocol: int = PROTOCOL
    """Number of the protocol."""

    version: str = quintain.__version__
    """Version of this package."""

    python: str = f"{sys.version_info.major}.{sys.version_info.minor}"
    """Version of Python. What trials save of their random state and code depends on it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Hello(Versions):
    """Registration of an agent, with the launches that it has."""

    name: _Name = ""
    """Name of the machine."""

    agent_id: _Name = ""
    """What the directory of the agent is recognised by."""

    place: _Name = ""
    """`process_identity.find_place` of the agent."""

    slots: tuple[slot.Slot, ...] = ()
    """Shares of the machine, numbered from 0."""

    labels: Mapping[_Name, _Name] = dataclasses.field(default_factory=dict)
    """What experiments choose machines by."""

    launches: Annotated[tuple[_LaunchId, ...], pydantic.Field(max_length=_MOST_LAUNCHES)] = ()
    """Launches whose processes it has, or whose exits it has not been told to drop."""

    draining: _Text = ""
    """Why it is about to leave; empty if it is not."""


@dataclasses.dataclass(frozen=True)
class Welcome:
    """The answer to a `Hello`."""

    session: str
    """What the agent names with each request."""

    wait_secs: float
    """For how long requests for orders are to wait: so often the agent is heard at least."""

    log_secs: float
    """Seconds between two looks at the logs."""

    usage_secs: float
    """Seconds between two looks at what a process uses of the machine."""

    offsets: Mapping[str, int]
    """Bytes of the logs of launches that the master has received."""


class OrderKind(enum.StrEnum):
    """Kinds of orders to an agent."""

    START = "start"
    """Start a process."""

    KILL = "kill"
    """End a process, and tell how it ended."""

    DROP = "drop"
    """Forget a launch, whose process is ended if it is there: nobody wants to hear of it again."""


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """One thing to do."""

    number: int
    """Number of the order in its session, from 1."""

    kind: OrderKind
    """What to do."""

    launch_id: str
    """Name of the launch."""

    launch: launcher.LaunchRequest | None = None
    """What to start; the agent sets the directory and the variables of its machine."""


@dataclasses.dataclass(frozen=True)
class Orders:
    """Orders, and the lines that were kept."""

    orders: tuple[Order, ...] = ()
    """Orders that the agent has not confirmed, in order."""

    kept: int = 0
    """Number of a report: its lines, and those of all before, are stored."""


@dataclasses.dataclass(frozen=True)
class Exit:
    """End of a process; see `launcher.ProcessExit`."""

    launch_id: _LaunchId
    """Name of the launch."""

    exit_code: Annotated[int, pydantic.Field(ge=-(2**31), lt=2**32)] | None = None
    """What it returned."""

    signal: Annotated[int, pydantic.Field(ge=1, le=255)] | None = None
    """The signal that ended it."""

    last_lines: Annotated[tuple[_Text, ...], pydantic.Field(max_length=_MOST_LINES)] = ()
    """The last lines that it wrote."""

    out_of_memory: bool = False
    """Whether there was no memory left."""

    reason: _Text = ""
    """Why it ended, where neither a code nor a signal says so."""


@dataclasses.dataclass(frozen=True)
class Report:
    """Events since the report before."""

    number: Annotated[int, pydantic.Field(ge=1, lt=2**63)]
    """Number of the report in its session, from 1."""

    started: Annotated[tuple[_LaunchId, ...], pydantic.Field(max_length=_MOST_LAUNCHES)] = ()
    """Launches whose processes are there."""

    lines: tuple[tuple[_LaunchId, _Secs, log.LogSource, str], ...] = ()
    """Lines that processes wrote, as (launch, time, source, text); by each process in order."""

    offsets: Mapping[_LaunchId, _Count] = dataclasses.field(default_factory=dict)
    """Bytes of the log of each launch that has lines here, up to the last of them."""

    exits: Annotated[tuple[Exit, ...], pydantic.Field(max_length=_MOST_LAUNCHES)] = ()
    """Processes that have ended, whose last lines are in this report or in one before."""

    usage: Mapping[_LaunchId, _Usage] = dataclasses.field(default_factory=dict)
    """What processes use of the machine, by launch."""

    draining: _Text = ""
    """Why the agent is about to leave; empty if it is not."""


def to_plain(record: object) -> Any:
    """Returns a record as plain data."""
    return _find_adapter(type(record)).dump_python(record, mode="json")


def parse(kind: type[T], body: bytes) -> T:
    """Returns a record of JSON that somebody sent.

    Raises:
        ConfigError: If it is none.
    """
    try:
        return _find_adapter(kind).validate_json(body, strict=True)
    except ValueError as error:
        raise errors.ConfigError(
            f"body: expected a {kind.__name__} as JSON, but it can't be read: {_explain(error)}"
        ) from None


def from_plain(kind: type[T], content: object) -> T:
    """Returns the record that `to_plain` made plain.

    Raises:
        ClusterError: If it is none: who answers is no master of this version.
    """
    try:
        return _find_adapter(kind).validate_python(content)
    except ValueError as error:
        raise errors.ClusterError(
            f"The master's answer is no {kind.__name__}: {_explain(error)}"
        ) from None


def _explain(error: ValueError) -> str:
    """Returns what is wrong with a record, without what it holds: there are tokens in it."""
    if not isinstance(error, pydantic.ValidationError):
        return type(error).__name__
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(
        f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problems[:_MOST_PROBLEMS]
    )


def check_name(name: str) -> None:
    """Checks the name of a machine.

    Raises:
        ConfigError: If it can't be part of a path.

    Example:
        >>> check_name("node-7.cluster")
    """
    if not _ALLOWED_NAME.fullmatch(name) or name == _RESERVED:
        raise errors.ConfigError(
            f"name: got {name[:200]!r}, expected at most 128 letters, digits, `-`, `_` and `.`, "
            f"beginning with a letter or digit. {_RESERVED!r} is the machine of the master."
        )


def check_hello(hello: Hello) -> None:
    """Checks what an agent says of itself.

    Raises:
        ConfigError: If it can't be.
    """
    check_name(hello.name)
    if [each.id for each in hello.slots] != list(range(len(hello.slots))):
        raise errors.ConfigError("slots: their numbers must count from 0.")
    for what, count, most in (
        ("slots", len(hello.slots), MOST_SLOTS),
        ("labels", len(hello.labels), MOST_LABELS),
    ):
        if count > most:
            raise errors.ConfigError(f"{what}: got {count}, at most {most} are allowed.")
    for each in hello.slots:
        num_threads = 1 if each.num_threads is None else each.num_threads
        if each.node or len(each.device) > _MOST_DEVICE or not 1 <= num_threads <= _MOST_THREADS:
            raise errors.ConfigError(
                f"slots: got {errors.show(each)}, expected one of this machine (node=''), with a "
                f"device of at most {_MOST_DEVICE} characters and 1 to {_MOST_THREADS} threads."
            )


def check_versions(theirs: Versions) -> None:
    """Checks that an agent is of the same version as this master.

    Raises:
        ConfigError: If it is not.
    """
    ours = Versions()
    if (theirs.protocol, theirs.version, theirs.python) != (
        ours.protocol,
        ours.version,
        ours.python,
    ):
        raise errors.ConfigError(
            f"The agent runs Quintain {theirs.version[:50]} under Python {theirs.python[:20]} "
            f"(protocol {theirs.protocol}), the master Quintain {ours.version} under Python "
            f"{ours.python} (protocol {ours.protocol}). Install the same versions on both: "
            f"pip install quintain=={ours.version}"
        )


def _find_adapter(kind: type[T]) -> pydantic.TypeAdapter[T]:
    """Returns what checks and builds records of a kind; making one takes long."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = pydantic.TypeAdapter(kind)
    found: pydantic.TypeAdapter[T] = _ADAPTERS[kind]
    return found


_ADAPTERS: Final[dict[type[Any], pydantic.TypeAdapter[Any]]] = {}
