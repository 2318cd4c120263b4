"""Times fine-tuning beside Hugging Face's `Trainer` and Keras' `fit`, A B A B.

python benchmarks/finetuning.py [--pairs=bert,image,lora,rows] [--rounds=3] [--steps=12]
    [--warmup=3]

`bert` fine-tunes BERT-base (random weights, float32, AdamW, dropout of 0.1) to classify texts of
4 to 128 tokens, in batches of 16: `quintain train`'s trainer over records against the `Trainer` of
Hugging Face in PyTorch, which pads each batch to its longest text.

`image` trains the same residual network on the same folder of images of 64 by 64 pixels, mirrored
at random, as `image/classification` does and by `image_dataset_from_directory` and `fit`.

`lora` teaches adapters of rank 8 beside a GPT-2 of 6 layers of width 512 (random weights, KerasHub)
the same conversations, 16 in a step: packed, as `hub/sft` does, and by `fit`, where KerasHub pads
each to 256 tokens.

`rows` trains an embedding of 2 million rows of 16 numbers, of which a batch looks up 256, by SGD:
`quintain.fit` and `fit`. What is timed is the second of three epochs of `--steps` steps.

Each run is a process of its own, one after the other in every round, with its own input pipeline.
Printed are the useful tokens (without padding) or examples a second by the clock and by processor
time, the most memory that the process held, and the ratios of the medians.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import peer_environments

HERE = pathlib.Path(__file__).parent / "finetuning_peers"
PAIRS = {
    "bert": ("quintain_bert.py", "huggingface_bert.py"),
    "image": ("quintain_image.py", "keras_image.py"),
    "lora": ("quintain_lora.py", "keras_lora.py"),
    "rows": ("quintain_rows.py", "keras_rows.py"),
}
"""Ours, and the peer."""

ENVIRONMENTS = {"huggingface_bert.py": "step-torch"}
"""Environments of peers whose packages are not ours."""


def run(script: str, options: argparse.Namespace) -> dict[str, float]:
    """Runs a peer and returns what it printed last."""
    environment = ENVIRONMENTS.get(script)
    python = peer_environments.find_python(environment) if environment else sys.executable
    command = [python, script, f"--steps={options.steps}", f"--warmup={options.warmup}"]
    done = subprocess.run(
        command,
        cwd=HERE,
        env={"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{script} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def compare(pair: str, options: argparse.Namespace) -> None:
    """Runs both of a pair in turn, and prints medians and ratios."""
    found: dict[str, list[dict[str, float]]] = {script: [] for script in PAIRS[pair]}
    for _ in range(options.rounds):
        for script, measured in found.items():
            measured.append(run(script, options))
            print(f"{pair} {script} {measured[-1]}", flush=True)
    ours, theirs = found.values()
    for name in ours[0]:
        our, their = (statistics.median(one[name] for one in each) for each in (ours, theirs))
        print(f"  {name:28} {our:10,.1f} {their:10,.1f}  ours/theirs {our / their:5.2f}")


if __name__ == "__main__":
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--pairs", default=",".join(PAIRS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12, help="measured steps of a run")
    parser.add_argument("--warmup", type=int, default=3, help="steps before them")
    options = parser.parse_args()
    for pair in options.pairs.split(","):
        compare(pair, options)
