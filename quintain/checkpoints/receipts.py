"""Receipts of checkpoints: Merkle roots over their values, chained from one to the next."""

import functools
import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.files import file_io, file_paths, literal_paths, whole_files

FORMAT: Final = 1
SUFFIX: Final = ".receipt.json"
CHAIN_FILE: Final = "receipts.jsonl"
"""File of a run with the head of every receipt, also of checkpoints that are deleted."""

PARTS: Final = ("weights", "optimizer", "random", "data", "progress")
_PROGRESS: Final = ("global_step", "loop_state", "recovery", "_CHECKPOINTABLE_OBJECT_GRAPH")
_BATCHES: Final = re.compile(rb'{"batches": (\d+)')
_HASHED_FACTS: Final = ("config", "code", "data")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Facts:
    """Facts of a run that decide the values of its checkpoints."""

    config: Mapping[str, Any] = field(default_factory=dict)
    """Effective config, with the header of `params.yaml`."""

    code: Mapping[str, str] = field(default_factory=dict)
    """Hashes of the user's modules by name, and the version of this package."""

    data: Mapping[str, str] = field(default_factory=dict)
    """Sizes and hashes of the files of training data, by path."""

    environment: Mapping[str, str] = field(default_factory=dict)
    """Versions of packages, kernels and their instruction set."""


@dataclass(frozen=True)
class Receipt:
    """Receipt of one checkpoint."""

    head: Mapping[str, Any]
    """What is chained: step, roots, hashes of facts, environment, the identity before it."""

    leaves: Mapping[str, str]
    """Hash of each value, by its key in the checkpoint."""

    facts: Mapping[str, Any]
    """Facts whose hashes are in the head: `config`, `code` and `data`."""

    @property
    def identity(self) -> str:
        """Hash of the head, which the next receipt holds."""
        return hash_json(self.head)

    def find_contradictions(self) -> list[str]:
        """Returns the parts of the receipt that do not have the hashes in its head."""
        parts = find_part_roots(self.leaves)
        wrong = [name for name in PARTS if parts[name] != self.head["parts"].get(name)]
        if merkle_root(parts) != self.head["root"]:
            wrong.append("root")
        return wrong + [
            name for name in _HASHED_FACTS if hash_json(self.facts[name]) != self.head[name]
        ]


def hash_json(value: Any) -> str:
    """Returns the SHA-256 of plain data, whatever the order of its keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=list)
    return hashlib.sha256(text.encode()).hexdigest()


def merkle_root(leaves: Mapping[str, str]) -> str:
    """Returns the root of a binary tree of SHA-256 over named hashes, in the order of the names.

    A node without a partner moves up as it is; leaves and inner nodes are hashed differently.

    Example:
        >>> merkle_root({"a": "1", "b": "2"}) == merkle_root({"b": "2", "a": "1"})
        True
    """
    nodes = [
        hashlib.sha256(f"0{json.dumps([name, leaves[name]])}".encode()).digest()
        for name in sorted(leaves)
    ]
    while len(nodes) > 1:
        pairs = [nodes[start : start + 2] for start in range(0, len(nodes), 2)]
        nodes = [
            pair[0] if len(pair) == 1 else hashlib.sha256(b"1" + b"".join(pair)).digest()
            for pair in pairs
        ]
    return nodes[0].hex() if nodes else ""


def find_part(key: str) -> str:
    """Returns the part of a run's state to which a key of a checkpoint belongs."""
    top = key.partition("/")[0]
    if top in _PROGRESS:
        return "progress"
    if top.endswith("random_state"):
        return "random"
    if top.startswith("data_position"):
        return "data"
    is_weight = not top.startswith("optimizer") or "/_trainable_variables/" in key
    return "weights" if is_weight else "optimizer"


def find_part_roots(leaves: Mapping[str, str]) -> dict[str, str]:
    """Returns the Merkle root of each part."""
    return {
        part: merkle_root({key: leaf for key, leaf in leaves.items() if find_part(key) == part})
        for part in PARTS
    }


def shorten(key: str) -> str:
    """Returns a key of a checkpoint as people read it."""
    return key.partition("/.ATTRIBUTES/")[0]


def hash_value(value: Any) -> str:
    """Returns the SHA-256 of type, shape and content of a value."""
    if isinstance(value, bytes):
        return hashlib.sha256(b"bytes\0" + value).hexdigest()
    array = np.asarray(value)
    digest = hashlib.sha256(f"{array.dtype}{array.shape}\0".encode())
    if array.dtype == object:
        digest.update(b"".join(len(one).to_bytes(8) + one for one in array.ravel()))
    else:
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def hash_values(path: str) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the hashes of all values of a checkpoint, and what is wrong with the others, by key.

    Args:
        path: Prefix of its files.

    Raises:
        OpError: If its index can't be read.
    """
    reader = literal_paths.read(path)
    leaves, damaged = {}, {}
    for key in sorted(reader.get_variable_to_shape_map()):
        try:
            leaves[key] = hash_value(reader.get_tensor(key))
        except (tf.errors.OpError, ValueError, RuntimeError, IndexError) as error:
            damaged[key] = str(getattr(error, "message", error)).partition("\n")[0]
    return leaves, damaged


def read_batches(path: str, keys: Iterable[str]) -> list[int]:
    """Returns the batches drawn from each data set by each worker, as a checkpoint has them.

    The state of an iterator is equal in what it gives, but not in its bits, after a restore.
    """
    reader = literal_paths.read(path)
    positions = [reader.get_tensor(key) for key in sorted(keys) if find_part(key) == "data"]
    return [int(found) for position in positions for found in _BATCHES.findall(position)]


def read(path: str) -> Receipt:
    """Returns the receipt in a file.

    Raises:
        CheckpointError: If there is none, it is damaged, or it is of another version.
    """
    if not file_io.exists(path):
        raise errors.CheckpointError(
            f"{path}: there is no such receipt. Checkpoints of versions without receipts have none."
        )
    try:
        content = whole_files.read_json(path)
        with whole_files.damage_explained(path):
            check_format(content["head"], path)
            found = Receipt(content["head"], content["leaves"], content["facts"])
            found.find_contradictions()  # All of its fields are there.
    except errors.DamagedFileError as error:
        raise errors.CheckpointError(str(error)) from error
    return found


def check_format(head: Mapping[str, Any], place: str) -> None:
    """Checks that a receipt is of a version that can be read.

    Raises:
        CheckpointError: If it is not.
    """
    if head["format"] != FORMAT:
        raise errors.CheckpointError(
            f"{place}: is a receipt of format {head['format']!r}; this version reads format "
            f"{FORMAT}. Use the version of Quintain that wrote it."
        )


def read_chain(directory: str) -> list[dict[str, Any]]:
    """Returns the heads of a run's receipts, oldest first; a line that a kill cut off is left out.

    Raises:
        CheckpointError: If a line can't be understood; the message names it.
    """
    path = file_paths.join(directory, CHAIN_FILE)
    if not file_io.exists(path):
        return []
    heads = []
    for number, line in enumerate(file_io.read_bytes(path).split(b"\n")[:-1], start=1):
        try:
            head = json.loads(line)
            heads.append({**head, "previous": head["previous"], "step": int(head["step"])})
        except (ValueError, LookupError, TypeError) as error:
            raise errors.CheckpointError(
                f"{path}:{number}: is no head of a receipt ({error}). Put back a copy of the file."
            ) from error
        check_format(head, f"{path}:{number}")
    return heads


class ReceiptWriter:
    """Writes the receipts of one run's checkpoints, each with the identity of the one before."""

    def __init__(
        self,
        directory: str,
        describe: Callable[[], Facts],
        chain: Iterable[dict[str, Any]] = (),
    ) -> None:
        """Stores where the run is.

        Args:
            directory: Directory of the run.
            describe: Returns its facts; called once, for the first receipt.
            chain: Heads of earlier receipts, which another directory has.
        """
        self._directory = directory
        self._describe = functools.cache(describe)
        self._is_in_file = False
        self.chain = list(chain)
        """Heads of the receipts so far, oldest first."""

        self.followed: Receipt | None = None
        """Receipt of the checkpoint that was restored, if it has one."""

    def follow(self, path: str) -> None:
        """Continues the chain at the checkpoint that was restored."""
        self.chain, self._is_in_file, self.followed = [], False, None
        if not file_io.exists(path + SUFFIX):
            return
        try:
            self.followed = read(path + SUFFIX)
            chain = read_chain(self._directory)
        except errors.CheckpointError as error:
            logger.warning("The chain of receipts starts anew: %s", error)
            return
        identity, known = self.followed.identity, [hash_json(one) for one in chain]
        if identity in known:
            self.chain = chain[: known.index(identity) + 1]
        else:
            self.chain = [*chain, dict(self.followed.head)]

    def write(self, prefix: str, step: int) -> dict[str, Any]:
        """Writes the receipt of a checkpoint beside its files, and returns its head."""
        facts = self._describe()
        leaves, damaged = hash_values(prefix)
        if damaged:
            raise errors.OutputError(f"its values can't be read back: {damaged}.")
        parts = find_part_roots(leaves)
        plain = {"config": facts.config, "code": facts.code, "data": facts.data}
        plain = json.loads(json.dumps(plain, default=list))
        head = {
            "format": FORMAT,
            "step": step,
            "root": merkle_root(parts),
            "parts": parts,
            "batches": read_batches(prefix, leaves),
            "index": hash_file(f"{prefix}.index"),
            **{name: hash_json(plain[name]) for name in _HASHED_FACTS},
            "environment": dict(facts.environment),
            "previous": hash_json(self.chain[-1]) if self.chain else None,
        }
        content = {"head": head, "leaves": leaves, "facts": plain}
        whole_files.write(prefix + SUFFIX, json.dumps(content, indent=1))
        return head

    def record(self, head: dict[str, Any]) -> None:
        """Adds the head of a checkpoint that is in its place to the chain of the run."""
        path = file_paths.join(self._directory, CHAIN_FILE)
        if self._is_in_file:
            whole_files.append(path, json.dumps(head))
        else:  # Heads of checkpoints after the restored one, and a line that was cut, go.
            whole_files.write(path, "".join(f"{json.dumps(one)}\n" for one in [*self.chain, head]))
            self._is_in_file = True
        self.chain.append(head)


def hash_file(path: str) -> str:
    """Returns the SHA-256 of a small file."""
    return hashlib.sha256(file_io.read_bytes(path)).hexdigest()


def name_some(names: Iterable[str]) -> str:
    """Returns the first names of values, and how many more there are."""
    return errors.enumerate_some([shorten(name) for name in names])
