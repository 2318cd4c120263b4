"""Kills a training run at random moments and proves that it ends the same, to the bit.

    python tests/integration/kill_and_resume.py --kills=20 --workdir=/tmp/kills

trains `translation/local` (cut down to seconds) twice: once undisturbed, once killed `--kills`
times at random moments with SIGKILL (and now and then SIGTERM) and started again each time. Both
must end with the same weights, optimizer state and evaluations. `--kernels=native` says that both
use native kernels; a copy of what the last kill left must then go on without a compiler, and end
within rounding.
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

from quintain.storage import run_mirror

OVERRIDES = {
    "task.model.embedding_width": 32,
    "task.model.encoder.num_layers": 1,
    "task.model.decoder.num_layers": 1,
    "task.model.encoder.num_attention_heads": 2,
    "task.model.decoder.num_attention_heads": 2,
    "task.model.encoder.intermediate_size": 64,
    "task.model.decoder.intermediate_size": 64,
    "task.model.dropout_rate": 0.05,
    "task.model.encoder.dropout_rate": 0.05,
    "task.model.decoder.attention_dropout_rate": 0.05,
    "task.model.beam_size": 2,
    "task.model.extra_decode_length": 4,
    "task.vocab_size": 300,
    "task.train_data.global_batch_size": 1024,
    "trainer.steps_per_loop": 7,
    "trainer.summary_interval": 7,
    "trainer.checkpoint_interval": 20,
    "trainer.validation_interval": 300,
    "trainer.validation_steps": 2,
    "trainer.train_steps": 1500,
}


def build_command(model_dir: pathlib.Path | str, overrides: dict) -> list[str]:
    """Returns the command line of one run."""
    pairs = ",".join(f"{name}={value}" for name, value in overrides.items())
    return [
        sys.executable,
        "-m",
        "quintain.cli.main",
        "train",
        "--experiment=translation/local",
        "--mode=train_and_eval",
        "--quiet",
        f"--model_dir={model_dir}",
        f"--params_override={pairs}",
    ]


def run_undisturbed(model_dir: pathlib.Path | str, overrides: dict) -> None:
    """Trains to the end in one go."""
    subprocess.run(build_command(model_dir, overrides), check=True, stdout=subprocess.DEVNULL)


def run_with_kills(
    model_dir: pathlib.Path | str,
    overrides: dict,
    num_kills: int,
    generator: random.Random,
    copy: pathlib.Path | None = None,
) -> int:
    """Trains to the end, killing the run `num_kills` times; returns how often it was running.

    What the last kill leaves is copied to `copy`.
    """
    done = 0
    attempt = 0
    while done < num_kills:
        attempt += 1
        if attempt > 20 * num_kills:
            raise SystemExit(f"only {done} of {num_kills} kills met a running process")
        started = latest_checkpoint(model_dir)
        process = subprocess.Popen(
            build_command(model_dir, overrides),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if is_kill_early := generator.random() < 0.2:
            time.sleep(generator.uniform(0.5, 8.0))
        else:
            wait_for_new_checkpoint(process, model_dir, started)
            time.sleep(generator.uniform(0.0, 0.4))
        number = signal.SIGTERM if generator.random() < 0.2 else signal.SIGKILL
        process.send_signal(number)
        _, errors = process.communicate()
        if process.returncode == 0:
            raise SystemExit(f"the run ended after {done} kills; give it more train_steps")
        if process.returncode not in (-signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGTERM):
            raise SystemExit(f"the run failed by itself:\n{errors}")
        done += 1
        print(
            f"kill {done:2d}: {signal.Signals(number).name}"
            f"{' while starting' if is_kill_early else ''}, newest checkpoint "
            f"{latest_checkpoint(model_dir)}",
            flush=True,
        )
    if copy is not None:
        shutil.copytree(model_dir, copy)
    run_undisturbed(model_dir, overrides)
    return done


def check_kernels(model_dir: pathlib.Path, used: str) -> None:
    """Exits if the last start of a run did not use these kernels."""
    starts = json.loads((model_dir / "environment.json").read_text())["starts"]
    if starts[-1]["kernels"]["used"] != used:
        raise SystemExit(f"{model_dir}: expected {used} kernels, got {starts[-1]['kernels']}")


def go_on_without_compiler(model_dir: pathlib.Path, overrides: dict) -> None:
    """Ends a run that was started with native kernels by TensorFlow's."""
    environment = {**os.environ, "CXX": "/no/compiler"}
    command = build_command(model_dir, overrides)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    check_kernels(model_dir, "tensorflow")


def measure_distance(first: pathlib.Path, second: pathlib.Path) -> float:
    """Returns by what share the losses of two runs' last evaluations differ."""
    losses = [
        json.loads((d / "evaluations.jsonl").read_text().splitlines()[-1])["metrics"]
        for d in (first, second)
    ]
    return abs(losses[0]["validation_loss"] / losses[1]["validation_loss"] - 1)


def latest_checkpoint(model_dir: pathlib.Path | str) -> int:
    """Returns the step of the newest checkpoint, or -1."""
    if isinstance(model_dir, pathlib.Path):
        names = [path.name for path in model_dir.glob("ckpt-*.index")]
    else:
        names = list(run_mirror.RunMirror(model_dir).read().files)
    steps = [int(name[5:-6]) for name in names if re.fullmatch(r"ckpt-\d+\.index", name)]
    return max(steps, default=-1)


def wait_for_new_checkpoint(
    process: subprocess.Popen, model_dir: pathlib.Path | str, started: int
) -> None:
    """Returns once the run has written a checkpoint of its own, or ended."""
    while process.poll() is None and latest_checkpoint(model_dir) == started:
        time.sleep(0.01 if isinstance(model_dir, pathlib.Path) else 0.2)


def find_differences(first: pathlib.Path, second: pathlib.Path) -> list[str]:
    """Compares the newest checkpoints and the evaluations of two runs, bit by bit."""
    import numpy as np
    import tensorflow as tf

    readers = [
        tf.train.load_checkpoint(tf.train.latest_checkpoint(str(d))) for d in (first, second)
    ]
    names = [set(reader.get_variable_to_shape_map()) for reader in readers]
    differences = [f"only in one of them: {name}" for name in sorted(names[0] ^ names[1])]
    for name in sorted(names[0] & names[1]):
        if name.endswith("VARIABLE_VALUE") and not np.array_equal(
            *(reader.get_tensor(name) for reader in readers)
        ):
            differences.append(f"variable {name}")
    evaluations = [
        [json.loads(line) for line in (d / "evaluations.jsonl").read_text().splitlines()]
        for d in (first, second)
    ]
    if evaluations[0] != evaluations[1]:
        differences.append(f"evaluations {evaluations[0]} and {evaluations[1]}")
    if not names[0] or not evaluations[0]:
        differences.append("nothing to compare")
    return differences


def main() -> None:
    """Runs the comparison and exits with 1 if the two runs differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--train_steps", type=int, default=OVERRIDES["trainer.train_steps"])
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments of the kills")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--workdir", type=pathlib.Path, required=True)
    parser.add_argument("--kernels", default="auto", choices=["auto", "native", "tensorflow"])
    parser.add_argument("--url", help="where the killed run is kept, as s3://bucket/run")
    args = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    overrides = {
        **OVERRIDES,
        "trainer.train_steps": args.train_steps,
        "runtime.mixed_precision_dtype": args.dtype,
    }

    undisturbed, killed = args.workdir / "undisturbed", args.workdir / "killed"
    run_undisturbed(undisturbed, overrides)
    copy = args.workdir / "copy" if args.kernels == "native" and not args.url else None
    generator = random.Random(args.seed)
    kills = run_with_kills(args.url or killed, overrides, args.kills, generator, copy)
    if args.url:
        run_mirror.RunMirror(args.url).pull(killed)
    differences = find_differences(undisturbed, killed)
    if differences:
        sys.exit("The two runs differ:\n  " + "\n  ".join(differences))
    if copy is not None:
        check_kernels(killed, "native")
        go_on_without_compiler(copy, overrides)
        distance = measure_distance(copy, killed)
        if distance > 1e-3:
            sys.exit(f"The loss without native kernels is another one, by {distance:.2%}.")
        print(f"without a compiler it ended with the same loss within {distance:.2g}")
    print(f"{kills} kills, and the run ended with the same weights and metrics to the bit")


if __name__ == "__main__":
    main()
