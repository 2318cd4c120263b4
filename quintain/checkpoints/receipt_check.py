"""Check of a run's checkpoints against their receipts, and of the chain of receipts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from quintain import errors
from quintain.checkpoints import checkpoints, receipts
from quintain.config import provenance
from quintain.files import file_io, file_paths


@dataclass(frozen=True)
class Finding:
    """Something that is not as its receipt says."""

    place: str
    """File, with the line where there are several receipts in one."""

    reason: str
    """What differs, with the names of values or fields."""

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


@dataclass(frozen=True)
class Verification:
    """Result of a check."""

    findings: Sequence[Finding]
    """What differs; empty if all is as it was written."""

    num_checkpoints: int
    """Checkpoints that have a receipt."""

    num_receipts: int
    """Receipts in the chain, with those of checkpoints that are deleted."""

    head: str
    """Identity of the newest receipt."""


def verify(
    directory: str, settings: Mapping[str, Any] | None, expected: str | None = None
) -> Verification:
    """Compares all checkpoints of a run with their receipts; nothing is written.

    Args:
        directory: Directory of the run.
        settings: Content of its `params.yaml`; None does not compare it.
        expected: Whole identity that a receipt of the run has to have.

    Raises:
        CheckpointError: If there is no receipt.
    """
    paths = checkpoints.list_checkpoints(directory)
    chain, findings = _check_chain(directory)
    known = {receipts.hash_json(head): head for head in chain}
    newest: receipts.Receipt | None = None
    names = file_io.listdir(directory) if file_io.isdir(directory) else []
    stray = {name for name in names if name.startswith("ckpt-") and name.endswith(receipts.SUFFIX)}
    num_checkpoints = 0
    for path in paths:
        stray.discard(file_paths.basename(path) + receipts.SUFFIX)
        step = int(path.rpartition("-")[2])
        if not file_io.exists(path + receipts.SUFFIX):
            if any(head["step"] == step for head in chain):
                findings.append(_find(path + receipts.SUFFIX, "is missing."))
            continue
        try:
            receipt = receipts.read(path + receipts.SUFFIX)
        except errors.CheckpointError as error:
            findings.append(Finding(*_split(str(error), path + receipts.SUFFIX)))
            continue
        num_checkpoints += 1
        newest = receipt
        is_last = path == paths[-1]
        findings += _check_receipt(path, receipt, step, known, chain, is_last=is_last)
        findings += _check_values(path, receipt, chain)
    for name in sorted(stray):
        findings.append(
            Finding(name, "is the receipt of a checkpoint whose index file is missing.")
        )
    if newest is None and not chain and not findings:
        raise errors.CheckpointError(
            f"{directory}: no checkpoint here has a receipt. Versions without receipts wrote them, "
            "or it is no directory of a run; checkpoints that are saved from now on have one."
        )
    if newest is not None:
        findings += _check_settings(newest, settings)
    head = newest.identity if newest else (receipts.hash_json(chain[-1]) if chain else "")
    if expected is not None and expected not in {*known, head}:
        reason = f"no receipt has exactly the identity {expected!r}, which you gave."
        findings.append(Finding(receipts.CHAIN_FILE, reason))
    return Verification(findings, num_checkpoints, max(len(chain), num_checkpoints), head)


def _find(path: str, reason: str) -> Finding:
    return Finding(file_paths.basename(path), reason)


def _split(message: str, path: str) -> tuple[str, str]:
    """Returns the name of a file, and the rest of a message that begins with its path."""
    return file_paths.basename(path), message.removeprefix(f"{path}: ")


def _check_chain(directory: str) -> tuple[list[dict[str, Any]], list[Finding]]:
    """Returns the heads in the chain, and the lines that do not follow those before them."""
    try:
        chain = receipts.read_chain(directory)
    except errors.CheckpointError as error:
        place = file_paths.join(directory, receipts.CHAIN_FILE)
        line = str(error).removeprefix(f"{place}:").partition(":")
        return [], [Finding(f"{receipts.CHAIN_FILE}:{line[0]}", line[2].strip())]
    findings = []
    for number, head in enumerate(chain[1:], start=2):
        before = chain[number - 2]
        if head["previous"] != receipts.hash_json(before):
            findings.append(
                Finding(
                    f"{receipts.CHAIN_FILE}:{number - 1}",
                    f"the receipt of step {before['step']} is not the one that the receipt of step "
                    f"{head['step']} was chained to.",
                )
            )
    return chain, findings


def _check_receipt(
    path: str,
    receipt: receipts.Receipt,
    step: int,
    known: Mapping[str, Mapping[str, Any]],
    chain: Sequence[Mapping[str, Any]],
    *,
    is_last: bool,
) -> list[Finding]:
    """Returns what is wrong with a receipt itself, and with its place in the chain."""
    place = path + receipts.SUFFIX
    if receipt.head["step"] != step:
        return [_find(place, f"is the receipt of step {receipt.head['step']}.")]
    if wrong := receipt.find_contradictions():
        return [_find(place, f"was edited: its {', '.join(wrong)} do not have their hashes.")]
    if receipt.identity in known:
        return []
    tail = receipts.hash_json(chain[-1]) if chain else None
    if is_last and receipt.head["previous"] == tail:
        return []  # The process was killed before it added the newest one.
    rival = next((head for head in chain if head["step"] == step), None)
    if rival is None:
        return [_find(place, f"is not in {receipts.CHAIN_FILE}.")]
    fields = [name for name in rival if rival[name] != receipt.head.get(name)]
    return [_find(place, f"differs from {receipts.CHAIN_FILE} in {', '.join(fields)}.")]


def _check_values(
    path: str, receipt: receipts.Receipt, chain: Sequence[Mapping[str, Any]]
) -> list[Finding]:
    """Returns the files of a checkpoint whose content is not that of its receipt."""
    index = f"{path}.index"
    digest = receipts.hash_file(index)
    if digest != receipt.head["index"]:
        other = next((head["step"] for head in chain if head["index"] == digest), None)
        reason = "was changed." if other is None else f"is the file of step {other}."
        return [_find(index, reason)]
    files = checkpoints.list_data_files(path)
    place = files[0] if files else f"{path}.data"
    try:
        leaves, damaged = receipts.hash_values(path)
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        return [_find(place, f"can't be read: {error}")]
    wrong = [key for key in receipt.leaves if leaves.get(key) != receipt.leaves[key]]
    if not wrong:
        return []
    if not damaged:
        return [_find(path + receipts.SUFFIX, f"has other hashes of {receipts.name_some(wrong)}.")]
    if len(wrong) > 1 and len(wrong) == len(receipt.leaves):
        return [_find(place, "is another file, or missing: no value is that of the receipt.")]
    return [_find(place, f"has other bits in {receipts.name_some(wrong)}.")]


def _check_settings(receipt: receipts.Receipt, settings: Mapping[str, Any] | None) -> list[Finding]:
    if settings is None:
        return []
    changes = provenance.diff_dicts(receipt.facts["config"], settings)
    if not changes:
        return []
    lines = [f"{name}: {old!r} -> {new!r}" for name, old, new in changes]
    return [
        Finding(
            "params.yaml",
            f"differs from the receipt of step {receipt.head['step']} in "
            f"{errors.enumerate_some(lines)}. It was edited, or a start with other settings has "
            "saved no checkpoint yet.",
        )
    ]
