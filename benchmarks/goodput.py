"""Goodput under kills: steps of a run that is killed again and again, beside an undisturbed one.

python benchmarks/goodput.py DIR [--experiment=translation/local] [--minutes=6] [--kill-every=60]

Three runs train for the same time: one undisturbed, one with `--standby`, one that a loop starts
again. Of each kill it prints the seconds until the next step that is logged, and the steps since
the newest checkpoint, which are done twice. Other work on the machine counts in all.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

SETTINGS = (
    "trainer.steps_per_loop=1",
    "trainer.summary_interval=1000000",
    "trainer.checkpoint_interval=20",
    "trainer.train_steps=1000000",
    "trainer.validation_interval=1000000",
)
KINDS = {"undisturbed": (), "standby": ("--standby",), "restart": ()}


def start(
    model_dir: pathlib.Path, options: argparse.Namespace, flags: tuple[str, ...]
) -> subprocess.Popen[bytes]:
    """Starts a training, or goes on with it."""
    settings = [f"--set={setting}" for setting in (*SETTINGS, *options.settings)]
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "quintain.cli.main", "train", "--mode=train", "--quiet"),
            *(f"--experiment={options.experiment}", f"--model-dir={model_dir}", *settings, *flags),
        ]
    )


def read_step(model_dir: pathlib.Path) -> int:
    """Returns the newest step in the log; 0 without one."""
    path = model_dir / "training.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    whole = [line for line in lines[-2:] if line.endswith("}")]
    return json.loads(whole[-1])["step"] if whole else 0


def find_size(model_dir: pathlib.Path) -> tuple[int, int]:
    """Returns what changes with every line of the log, also where old lines are dropped."""
    path = model_dir / "training.jsonl"
    stat = path.stat() if path.exists() else None
    return (stat.st_size, stat.st_mtime_ns) if stat else (0, 0)


def run(kind: str, options: argparse.Namespace) -> int:
    """Trains for the time of the options, and returns the step that was reached."""
    model_dir = options.directory / kind
    process = start(model_dir, options, KINDS[kind])
    while not read_step(model_dir):
        time.sleep(0.05)
    begin, first, secs, lost = time.monotonic(), read_step(model_dir), [], []
    while (elapsed := time.monotonic() - begin) < options.minutes * 60:
        if kind == "undisturbed" or elapsed < (len(secs) + 1) * options.kill_every:
            time.sleep(0.05)
            continue
        step = read_step(model_dir)
        saved = [int(path.stem.partition("-")[2]) for path in model_dir.glob("ckpt-*.index")]
        killed = time.monotonic()
        os.kill(json.loads((model_dir / "run.lock").read_text())["pid"], signal.SIGKILL)
        if kind == "restart":
            process.wait()
            process = start(model_dir, options, ())
        # The log is cut to the checkpoint first; a line after that is a step.
        while not (model_dir / "run.lock").exists() or read_step(model_dir) in (
            step, max(saved, default=0)
        ):  # fmt: skip
            time.sleep(0.01)
        secs.append(time.monotonic() - killed)
        lost.append(step - max(saved, default=0))
    steps = read_step(model_dir) - first
    process.terminate()
    process.wait()
    print(f"{kind:<12} {steps:6d} steps in {time.monotonic() - begin:.0f} s, {len(secs)} kills")
    if secs:
        found = ", ".join(f"{one:.1f}" for one in secs)
        print(f"  to the next step: {found} s, median {statistics.median(secs):.1f} s")
        print(f"  steps done twice: {lost}", flush=True)
    return steps


def main() -> None:
    """Prints the share of steps of each kind of run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--experiment", default="translation/local")
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--kill-every", type=float, default=60.0, help="seconds")
    parser.add_argument("--set", dest="settings", action="append", default=[])
    parser.add_argument("--kinds", default=",".join(KINDS))
    options = parser.parse_args()
    steps = {kind: run(kind, options) for kind in options.kinds.split(",")}
    for kind in list(steps)[1:]:
        print(f"goodput with {kind}: {steps[kind] / max(steps['undisturbed'], 1):.1%}")


if __name__ == "__main__":
    main()
