"""What `training_step.py` and `bert_step.py` share: runs the peers, compares speeds and losses."""

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import peer_environments

CHECKED_STEPS = 10
TOLERANCE = 1e-3
"""Largest difference of losses in a check, as a share of ours."""


@dataclasses.dataclass
class Settings:
    """What all runs of a comparison have in common."""

    folder: pathlib.Path
    """Holds `quintain_run.py`, `torch_run.py` and `keras_run.py`."""

    steps: int
    warmup: int
    weights: str = ""
    """File of the weights that all start from."""

    is_check: bool = False


def parse(doc: str | None, *, peers: str, steps: int, warmup: int) -> argparse.Namespace:
    """Reads the command line, with these defaults."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=doc, formatter_class=formatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=steps, help="measured steps of a run")
    parser.add_argument("--warmup", type=int, default=warmup, help="steps before them")
    parser.add_argument("--precisions", default="bfloat16,float32")
    parser.add_argument("--peers", default=peers)
    parser.add_argument("--check", action="store_true", help="compare losses, not speeds")
    options = parser.parse_args()
    options.peers = options.peers.split(",")
    options.precisions = options.precisions.split(",")
    return options


def run(name: str, precision: str, settings: Settings, *arguments: str) -> dict[str, Any]:
    """Runs a peer and returns what it printed; nothing if it only wrote weights."""
    environment = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ}
    if name == "quintain":
        command = [sys.executable, "quintain_run.py"]
    elif name.startswith("torch"):
        command = [peer_environments.find_python("step-torch"), "torch_run.py"]
        command += [f"--{option}" for option in name.split("-")[1:]]
    else:
        command = [peer_environments.find_python("step-keras"), "keras_run.py"]
        environment["KERAS_BACKEND"] = name.removeprefix("keras-")
    environment["STEP_SIZES"] = "tiny" if settings.is_check else ""
    command += [f"--precision={precision}", f"--weights={settings.weights}", *arguments]
    command += [f"--steps={settings.steps}", f"--warmup={settings.warmup}"]
    done = subprocess.run(
        command, cwd=settings.folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
    lines = done.stdout.splitlines()
    return json.loads(lines[-1]) if lines else {}


def compare(
    folder: pathlib.Path,
    options: argparse.Namespace,
    summarise: Callable[[str, dict[str, float]], None] = lambda precision, speeds: None,
) -> None:
    """Does what the command line asks for.

    Args:
        folder: That of the peers.
        options: From `parse`.
        summarise: Prints what else there is to say, from the tokens a second of each peer.
    """
    settings = Settings(folder, options.steps, options.warmup, is_check=options.check)
    if options.check:
        settings.steps = CHECKED_STEPS
    with tempfile.TemporaryDirectory() as temporary:
        weights = str(pathlib.Path(temporary) / "weights.npz")
        run("quintain", "float32", settings, f"--write_weights={weights}")
        settings.weights = weights
        if options.check:
            check(options.peers, settings)
            return
        for precision in options.precisions:
            found: dict[str, list[dict[str, float]]] = {name: [] for name in options.peers}
            for _ in range(options.rounds):
                for name, measured in found.items():
                    measured.append(run(name, precision, settings))
                    print(f"{precision} {name} {measured[-1]}", flush=True)
            summarise(precision, print_speeds(found))


def print_speeds(found: dict[str, list[dict[str, float]]]) -> dict[str, float]:
    """Prints what each peer's runs measured, and returns its median of tokens a second."""
    speeds = {
        name: statistics.median(one["tokens_per_sec"] for one in measured)
        for name, measured in found.items()
    }
    for name, measured in found.items():
        memory = statistics.median(one["mib"] for one in measured)
        ratio = speeds.get("quintain", float("nan")) / speeds[name]
        print(
            f"  {name:18} {speeds[name]:8,.0f} tokens/s  ours/theirs {ratio:5.2f}  "
            f"loss {measured[-1]['loss']:.3f}  {memory:6,.0f} MiB"
        )
    return speeds


def check(peers: list[str], settings: Settings) -> None:
    """Prints the losses of all peers after each step, from the same weights, without dropout.

    Raises:
        SystemExit: If a loss differs from ours by more than `TOLERANCE`.
    """
    losses = {name: run(name, "float32", settings)["losses"] for name in peers}
    print("step   " + "".join(f"{name:>18}" for name in losses))
    for step, row in enumerate(zip(*losses.values(), strict=True), start=1):
        label = f"{step:<7}" if step <= settings.steps else "at end "
        print(label + "".join(f"{loss:18.5f}" for loss in row))
    ours = losses[peers[0]]
    differences = {
        name: max(abs(their - our) / our for our, their in zip(ours, theirs, strict=True))
        for name, theirs in losses.items()
    }
    print("differs" + "".join(f"{difference:18.1e}" for difference in differences.values()))
    wrong = [name for name, difference in differences.items() if difference > TOLERANCE]
    if wrong:
        raise SystemExit(f"not equal to {peers[0]}: {', '.join(wrong)}")
