"""`quintain doctor`: what this machine has for Quintain, and what keeps something from working."""

import collections
import contextlib
import dataclasses
import importlib.metadata
import importlib.util
import os
import pathlib
import platform
import shutil
import socket
import sqlite3
from collections.abc import Iterator
from typing import Final
from urllib import parse

import click

import quintain
from quintain import errors
from quintain.cli import output, tensorflow_import
from quintain.cli.lazy_group import FlagCommand
from quintain.client import master_client
from quintain.client.home import home as home_lib
from quintain.client.home import home_database, logins
from quintain.master.placing import slots
from quintain.records.config import database_url
from quintain.records.rows import node as node_lib

PACKAGES: Final = (
    *("tensorflow", "keras", "tensorflow-text", "numpy", "sentencepiece", "sacrebleu"),
    *("optuna", "pydantic", "fastapi"),
)
EXTRAS: Final = {
    "gpu": "nvidia",
    "tfds": "tensorflow_datasets",
    "datasets": "datasets",
    "remote": "fsspec",
    "privacy": "dp_accounting",
    "parquet": "pyarrow",
    "trackio": "trackio",
    "wandb": "wandb",
    "postgresql": "psycopg",
    "ray": "ray",
    "s3": "s3fs",
    "gs": "gcsfs",
    "azure": "adlfs",
    "hub": "keras_hub",
    "notebook": "matplotlib",
    "estimator": "tensorflow_estimator",
}
"""Modules that the optional parts of the package install, by the names of the parts."""

_INSTRUCTIONS: Final = (
    *("avx2", "fma", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16"),
    *("amx_tile", "amx_bf16", "amx_int8"),
)
_EXIT_PROBLEM: Final = 1
_ANSWER_SECS: Final = 3.0
_LEAST_FREE_BYTES: Final = 100 * 2**20


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line."""

    part: str
    """What it is about."""

    name: str
    """What was looked at."""

    value: str
    """What was found."""

    problem: str = ""
    """What does not work and what to do; empty if nothing is wrong."""


@click.command(cls=FlagCommand)
@output.json_option
def doctor(as_json: bool) -> None:
    r"""Show what this machine has: versions, processor, native kernels, home directory, extras.

    Native kernels are compiled if they have not been, so that the answer is sure. Exits with 1 if
    there is a problem, which a line says how to solve; what is only missing is none.

    \b
    quintain doctor
    quintain doctor --json
    """
    findings = collect()
    problems = [finding for finding in findings if finding.problem]
    if as_json:
        output.print_json({"is_healthy": not problems, "findings": findings})
    else:
        _print(findings)
    if problems:
        raise click.exceptions.Exit(_EXIT_PROBLEM)


def _print(findings: list[Finding]) -> None:
    parts = list(dict.fromkeys(finding.part for finding in findings))
    for part in parts:
        click.echo(part)
        own = [finding for finding in findings if finding.part == part]
        output.print_fields({one.name: one.value or "-" for one in own}, indent="  ")
    problems = [finding for finding in findings if finding.problem]
    for finding in problems:
        click.echo(f"Problem: {finding.part}, {finding.name}: {finding.problem}", err=True)
    if not problems:
        click.echo("No problems.")


def collect() -> list[Finding]:
    """Looks at everything."""
    return [
        *_find_versions(),
        *_find_machine(),
        *_find_tensorflow(),
        *_find_home(),
        *_find_cluster(),
        *_find_extras(),
    ]


def _find_versions() -> Iterator[Finding]:
    yield Finding("Versions", "quintain", quintain.__version__)
    yield Finding("Versions", "python", platform.python_version())
    for name in PACKAGES:
        try:
            yield Finding("Versions", name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            remedy = f"it is not installed; run `pip install {name}`"
            yield Finding("Versions", name, "missing", remedy)


def _find_machine() -> Iterator[Finding]:
    about = _read_fields(pathlib.Path("/proc/cpuinfo"))
    yield Finding("Machine", "system", platform.platform())
    yield Finding("Machine", "processor", about.get("model name") or platform.machine())
    flags = about.get("flags", "").split()
    sets = [name for name in _INSTRUCTIONS if name in flags]
    yield Finding("Machine", "instruction sets", " ".join(sets))
    yield Finding("Machine", "cores", f"{slots.count_cores()} of {os.cpu_count()}")
    memory = _read_fields(pathlib.Path("/proc/meminfo"))
    if memory:
        total, free = (_parse_kib(memory.get(key, "")) for key in ("MemTotal", "MemAvailable"))
        text = f"{output.format_bytes(total)}, {output.format_bytes(free)} available"
        yield Finding("Machine", "memory", text)


def _find_tensorflow() -> Iterator[Finding]:
    try:
        tensorflow_import.import_quietly()
        import tensorflow as tf
    except ImportError as error:
        remedy = "run `pip install --force-reinstall tensorflow`"
        yield Finding("Machine", "TensorFlow", "can't be imported", f"{error}; {remedy}")
        return
    gpus = [device.name for device in tf.config.list_physical_devices("GPU")]
    yield Finding("Machine", "GPUs of TensorFlow", " ".join(gpus) or "none")
    yield from _find_kernels()


def _find_kernels() -> Iterator[Finding]:
    from quintain.files import user_cache
    from quintain.kernels import building, compiler_calls, library

    if library.emulates_bfloat16():
        yield Finding("Machine", "bfloat16", "without instructions; float32 is faster on the CPU")
    part = "Native kernels"
    reason = library.find_reason()
    if reason is None:
        loaded = library.load()
        origins = {
            "package": "came with the package",
            "cache": "from the cache",
            "compiled": "compiled just now",
        }
        yield Finding(part, "state", f"on: {loaded.instruction_set}, {origins[loaded.origin]}")
    else:
        yield Finding(part, "state", f"off, TensorFlow's are used: {reason}")
    try:
        text = building.describe_compiler(building.find_compiler())
        yield Finding(part, "compiler", text)
    except compiler_calls.BuildError as error:
        yield Finding(part, "compiler", str(error))
    yield Finding(part, "headers", building.find_headers_reason() or "come with TensorFlow")
    try:
        yield Finding(part, "cache", str(user_cache.open_directory("kernels")))
    except user_cache.UnusableCacheError as error:
        yield Finding(part, "cache", f"can't be used: {error}")


def _find_home() -> Iterator[Finding]:
    part = "Home directory"
    home = home_lib.find_home()
    yield Finding(part, "path", str(home.path), _find_home_problem(home.path))
    place = _find_existing(home.path)
    free = shutil.disk_usage(place).free
    problem = "" if free >= _LEAST_FREE_BYTES else "the disk is full; checkpoints need room"
    yield Finding(part, "free", output.format_bytes(free), problem)
    try:
        database = home_database.find(home.path)
        server, problem = _ask_database(database)
        yield Finding(part, "database", home_database.describe(database) + server, problem)
    except errors.QuintainError as error:
        yield Finding(part, "database", "unknown", str(error))
    try:
        master = home_lib.find_master(home)
        address = master.address if isinstance(master, logins.Login) else master
        yield Finding(part, "master", "none runs" if address is None else address.url)
    except errors.QuintainError as error:
        yield Finding(part, "master", "unknown", str(error))


def _find_cluster() -> Iterator[Finding]:
    """Tells which Ray cluster this machine belongs to, and which machines run trials."""
    part = "Cluster"
    if importlib.util.find_spec("ray") is not None:
        yield Finding(part, "ray", _find_ray_address())
    try:
        home = home_lib.find_home()
        master = home_lib.find_master(home)
        if master is None:
            return
        with master_client.MasterClient.connect(home, master.address) as client:
            nodes = client.list_nodes()
    except errors.QuintainError as error:
        yield Finding(part, "machines", "unknown", str(error))
        return
    states = collections.Counter(node.state.value for node in nodes)
    slots_by_state = collections.Counter[str]()
    for node in nodes:
        slots_by_state[node.state.value] += len(node.slots)
    texts = [
        f"{number} {state} (slots: {slots_by_state[state]})"
        for state, number in sorted(states.items())
    ]
    yield Finding(part, "machines", ", ".join(texts))
    for node in nodes:
        if node.state is not node_lib.NodeState.ACTIVE:
            yield Finding(part, node.name, f"{node.state.value}: {node.reason or 'no reason told'}")


def _find_ray_address() -> str:
    """Returns the address of the cluster of this machine, and whether somebody listens there."""
    try:
        from ray._private import utils
    except ImportError as error:
        return f"its package can't be imported ({error})"
    address = os.environ.get("RAY_ADDRESS") or utils.read_ray_address()
    if not address:
        return "this machine is in no cluster"
    try:
        found = parse.urlsplit(address if "//" in address else f"//{address}")
        with socket.create_connection((found.hostname or "", found.port or 0), _ANSWER_SECS):
            return address
    except (OSError, ValueError) as error:
        return f"{address}, where nobody answers ({error})"


def _find_extras() -> Iterator[Finding]:
    for name, module in EXTRAS.items():
        text = f'missing; pip install "quintain[{name}]"'
        if importlib.util.find_spec(module) is not None:
            text = _find_version(module) or "installed"
        yield Finding("Extras", name, text)


def _find_version(module: str) -> str:
    try:
        return importlib.metadata.version(module.replace("_", "-"))
    except importlib.metadata.PackageNotFoundError:
        return ""


def _find_home_problem(path: pathlib.Path) -> str:
    """Returns why a home directory can't be used; empty if it, or what it would be in, can."""
    place = _find_existing(path)
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        return f"{place} can't be written; set {home_lib.HOME_VARIABLE} to a directory that can"
    if place == path and path.stat().st_uid != os.geteuid():
        return f"it belongs to another user; set {home_lib.HOME_VARIABLE} to a directory of yours"
    return ""


def _ask_database(database: home_database.Database) -> tuple[str, str]:
    """Returns which server answers, and why the database can't be asked; both may be empty."""
    try:
        if isinstance(database, str):
            return f" (PostgreSQL {_ask_server(database)})", ""
        if database.exists():
            _ask_file(database)
    except (errors.QuintainError, sqlite3.Error, OSError) as error:
        return "", f"it can't be asked: {error}"
    return "", ""


def _ask_server(address: str) -> str:
    """Returns the version of a server."""
    try:
        import psycopg
    except ImportError as error:
        raise errors.StoreError('run `pip install "quintain[postgresql]"`') from error
    from quintain.store.postgres import postgres_connection

    url = database_url.parse(address)
    name = postgres_connection.build_name("doctor")
    try:
        connection = postgres_connection.Connector(url, name).connect()
    except psycopg.Error as error:
        raise errors.StoreError(" ".join(str(error).split())) from error
    with contextlib.closing(connection):
        # With what the distribution adds: `15.8 (Debian 15.8-1)`.
        return (connection.info.parameter_status("server_version") or "").partition(" ")[0]


def _ask_file(path: pathlib.Path) -> None:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    finally:
        connection.close()


def _find_existing(path: pathlib.Path) -> pathlib.Path:
    """Returns a path, or the nearest directory above it that exists."""
    return next(place for place in (path, *path.parents) if place.exists())


def _read_fields(path: pathlib.Path) -> dict[str, str]:
    """Returns `name: value` of the lines of a file of the kernel, the last of each; maybe none."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    parted = [line.partition(":") for line in lines]
    return {name.strip(): value.strip() for name, _, value in parted}


def _parse_kib(text: str) -> int | None:
    number = text.removesuffix("kB").strip()
    return int(number) * 1024 if number.isdigit() else None
