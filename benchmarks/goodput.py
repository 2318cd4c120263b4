"""Goodput under kills: steps of a run that is killed again and again, beside an undisturbed one.

python benchmarks/goodput.py DIR [--experiment=translation/local] [--minutes=6] [--kill-every=60]

Every kind trains for the same time: undisturbed, with `--standby`, in a loop that starts it again;
and peers of the size of `translation/small` in such a loop, Keras with `BackupAndRestore` and
PyTorch Lightning with its last checkpoint, each with an undisturbed run of its own. Of each kill it
prints the seconds until the next step that is logged, and the steps that are done twice. Other work
on the machine counts in all. `--bundled` trains on the pairs that come with the package.
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
from typing import Any

import peer_environments

SETTINGS = (
    "trainer.steps_per_loop=1",
    "trainer.summary_interval=1000000",
    "trainer.train_steps=1000000",
    "trainer.validation_interval=1000000",
)
BUNDLED = tuple(
    f"task.{data}_data.{setting}"
    for data in ("train", "validation")
    for setting in ("input_path=bundled:numbers_and_dates/train", "src_lang=en", "tgt_lang=de")
)
KINDS = ("undisturbed", "standby", "restart")
PEERS = {"backup_and_restore": "keras_backup.py", "lightning": "lightning_last.py"}
CALM = "-undisturbed"


def start(kind: str, options: argparse.Namespace) -> subprocess.Popen[bytes]:
    """Starts a training, or goes on with it."""
    model_dir = options.directory / kind
    if peer := PEERS.get(kind.removesuffix(CALM)):
        is_torch = peer.startswith("lightning")
        python = peer_environments.find_python("goodput-torch") if is_torch else sys.executable
        program = pathlib.Path(__file__).with_name("goodput_peers") / peer
        steps = f"--steps-per-save={options.steps_per_save}"
        return subprocess.Popen([python, program, model_dir, steps])
    saving = f"trainer.checkpoint_interval={options.steps_per_save}"
    data = BUNDLED if options.bundled else ()
    settings = [f"--set={one}" for one in (*SETTINGS, saving, *data, *options.settings)]
    flags = ("--standby",) if kind == "standby" else ()
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "quintain.cli.main", "train", "--mode=train", "--quiet"),
            *(f"--experiment={options.experiment}", f"--model-dir={model_dir}", *settings, *flags),
        ]
    )


def read_newest(model_dir: pathlib.Path) -> dict[str, Any]:
    """Returns the newest line of the log; one of step 0 without one."""
    path = model_dir / "training.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    whole = [line for line in lines[-2:] if line.endswith("}")]
    found: dict[str, Any] = json.loads(whole[-1]) if whole else {"step": 0, "time_secs": 0.0}
    return found


def run(kind: str, options: argparse.Namespace) -> int:
    """Trains for the time of the options, and returns the steps that were done for good."""
    model_dir = options.directory / kind
    process = start(kind, options)
    while not read_newest(model_dir)["step"]:
        time.sleep(0.05)
    begin, first, secs, lost = time.monotonic(), read_newest(model_dir)["step"], [], []
    is_calm = kind.endswith("undisturbed")
    while (elapsed := time.monotonic() - begin) < options.minutes * 60:
        if is_calm or elapsed < (len(secs) + 1) * options.kill_every:
            time.sleep(0.05)
            continue
        step, killed = read_newest(model_dir)["step"], time.time()
        os.kill(json.loads((model_dir / "run.lock").read_text())["pid"], signal.SIGKILL)
        if kind != "standby":
            process.wait()
            process = start(kind, options)
        while (newest := read_newest(model_dir))["time_secs"] <= killed:
            time.sleep(0.01)
        secs.append(newest["time_secs"] - killed)
        lost.append(step + 1 - newest["step"])
    steps = read_newest(model_dir)["step"] - first
    process.terminate()
    process.wait()
    print(f"{kind:<18} {steps:6d} steps in {time.monotonic() - begin:.0f} s, {len(secs)} kills")
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
    parser.add_argument("--bundled", action="store_true")
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--kill-every", type=float, default=60.0, help="seconds")
    parser.add_argument("--steps-per-save", type=int, default=20)
    parser.add_argument("--set", dest="settings", action="append", default=[])
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"also {', '.join(PEERS)}")
    options = parser.parse_args()
    steps: dict[str, int] = {}
    for kind in options.kinds.split(","):
        calm = f"{kind}{CALM}" if kind in PEERS else "undisturbed"
        for name in dict.fromkeys((calm, kind)):
            if name not in steps:
                steps[name] = run(name, options)
        if kind != calm:
            print(f"goodput with {kind}: {steps[kind] / max(steps[calm], 1):.1%}", flush=True)


if __name__ == "__main__":
    main()
