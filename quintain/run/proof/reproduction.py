"""Runs built anew from one receipt, with data and code that have its hashes."""

import importlib.util
import os
from collections.abc import Mapping

import quintain
from quintain import errors
from quintain.checkpoints import receipts
from quintain.config import run_header, yaml_io
from quintain.core import user_modules
from quintain.files import file_io, file_paths, whole_files
from quintain.input import file_marks
from quintain.run import run_files
from quintain.run.proof import comparison, retraining, run_facts


def reproduce(path: str, model_dir: str) -> list[str]:
    """Trains a run anew up to the step of a receipt, and compares the results.

    Args:
        path: The receipt.
        model_dir: Directory of the new run, which must be new.

    Returns:
        Values that differ, with the facts that do; empty if all is equal to the bit.

    Raises:
        ConfigError: Listing code and data that are not found by their hashes, before anything is
            written; or if the directory is in use.
        CheckpointError: If the receipt can't be read or was edited.
    """
    receipt = receipts.read(path)
    if wrong := receipt.find_contradictions():
        raise errors.CheckpointError(
            f"{path}: was edited: its {', '.join(wrong)} do not have their hashes. Use the receipt "
            "as it was written."
        )
    if file_io.exists(model_dir) and (not file_io.isdir(model_dir) or file_io.listdir(model_dir)):
        raise errors.ConfigError(f"--model-dir: {model_dir!r} is in use. Give a new directory.")
    config = receipt.facts["config"]
    if run_header.EXPERIMENT_KEY not in config:
        raise errors.ConfigError(
            f"{path}: names no experiment, because a program made its config. Register a function "
            "that returns it and train again by `quintain train`."
        )
    if missing := [*_find_other_code(receipt), *_find_other_data(receipt.facts["data"])]:
        lines = "".join(f"\n  {one}" for one in missing)
        raise errors.ConfigError(
            f"{path}: the run can't be built anew, because code or data are not those of the "
            f"receipt:{lines}\nPut them back, or run this where they are."
        )
    whole_files.write(run_files.params_path(model_dir), yaml_io.dump(config))
    retraining.train(model_dir, [f"trainer.train_steps={receipt.head['step']}"])
    return _find_differences(receipt, model_dir)


def _find_other_code(receipt: receipts.Receipt) -> list[str]:
    """Returns the modules of a receipt that are not found, or have other hashes."""
    wrong = []
    user_modules.search_first(os.getcwd())
    for name, digest in receipt.facts["code"].items():
        if name == run_facts.QUINTAIN:
            if digest != quintain.__version__:
                wrong.append(f"quintain: version {digest}, here {quintain.__version__}")
            continue
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            spec = None
        if spec is None or not spec.origin:
            wrong.append(f"module {name}: not found")
        elif receipts.hash_file(spec.origin) != digest:
            wrong.append(f"module {name}: {spec.origin} has other content")
    return wrong


def _find_other_data(marks: Mapping[str, str]) -> list[str]:
    wrong = [f"data {path}: not found" for path in marks if not file_io.exists(path)]
    return wrong + [
        f"data {path}: has other content"
        for path, mark in marks.items()
        if file_io.exists(path) and file_marks.describe(path) != mark
    ]


def _find_differences(receipt: receipts.Receipt, model_dir: str) -> list[str]:
    """Returns what differs between a receipt and that of the new run at its step."""
    step = receipt.head["step"]
    made = receipts.read(file_paths.join(model_dir, f"ckpt-{step}{receipts.SUFFIX}"))
    found = [
        receipts.shorten(key)
        for key, leaf in receipt.leaves.items()
        if receipts.find_part(key) in comparison.COMPARED and made.leaves.get(key) != leaf
    ]
    if not found:
        return []
    return [errors.enumerate_some(found, 5), *comparison.find_environment(receipt.head, made.head)]
