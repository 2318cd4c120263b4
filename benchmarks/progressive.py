"""Trains translation/local plainly and in stages, and compares quality with processor time.

python benchmarks/progressive.py [KIND:SMALL_STEPS:STEPS ...]

Each argument is a run of STEPS steps whose first SMALL_STEPS are a stage of their own: at half the
`width`, at half the `depth`, with half the tokens in a `batch`, or `both` of these two;
`none:0:STEPS` is the plain run.
The learning rate falls over STEPS. Every run is a process of its own; they run one after the other.
Processor time counts all threads of the process, compilation and growth included, but not the
evaluations, so that other programs disturb it little.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

NUM_EVALUATIONS = 5
RUNS = (
    "none:0:1000",
    "batch:600:1200",
    "depth:300:1000",
    "width:300:1000",
    "none:0:800",
    "both:600:1200",
    "batch:500:950",
)
FIRST_STAGES: dict[str, Any] = {
    "width": {
        "model": {
            "embedding_width": 64,
            "encoder": {"num_attention_heads": 2, "intermediate_size": 256},
            "decoder": {"num_attention_heads": 2, "intermediate_size": 256},
        }
    },
    "depth": {"model": {"encoder": {"num_layers": 1}, "decoder": {"num_layers": 1}}},
    "batch": {"train_data": {"global_batch_size": 512}},
    "both": {
        "model": {"encoder": {"num_layers": 1}, "decoder": {"num_layers": 1}},
        "train_data": {"global_batch_size": 512},
    },
}


def run_child(kind: str, small_steps: int, steps: int) -> None:
    """Trains once, and prints one line of JSON for every evaluation."""
    import quintain.nlp.experiments  # noqa: F401 - registers the experiments of the package
    from quintain import orbit
    from quintain.core import exp_factory
    from quintain.core.progressive import configs
    from quintain.run import run_options, train_lib

    eval_secs = [0.0, 0.0]

    class Printer(orbit.Reporter):
        def on_eval_begin(self, step: int, num_steps: int) -> None:
            eval_secs[1] = read_cpu_secs()

        def on_eval_end(self, step: int, output: Any, secs: float) -> None:
            eval_secs[0] += read_cpu_secs() - eval_secs[1]
            row = {
                "step": step,
                "train_cpu_secs": read_cpu_secs() - eval_secs[0] - start,
                "exact_match": float(output["exact_match"]),
                "loss": float(output["validation_loss"]),
            }
            print(json.dumps(row), flush=True)

    params = exp_factory.get_exp_config("translation/local")
    params.trainer.override(
        {
            "train_steps": steps,
            "validation_interval": steps // NUM_EVALUATIONS,
            "optimizer_config": {"learning_rate": {"cosine": {"decay_steps": steps}}},
        }
    )
    params.task.print_translations = False
    if kind != "none":
        params.task.model.position_repeats = 2 if kind == "width" else 1
        first = {"num_steps": small_steps, "task": FIRST_STAGES[kind]}
        if kind == "width":
            first["task"]["model"]["position_repeats"] = 1
        params.trainer = configs.ProgressiveTrainerConfig(
            **params.trainer.as_dict(), progressive={"stages": [first, {}]}
        )
    start = read_cpu_secs()
    with tempfile.TemporaryDirectory() as directory:
        train_lib.train_from_config(
            params,
            "train_and_eval",
            directory,
            experiment="benchmark",
            options=run_options.RunOptions(reporter=Printer()),
        )


def read_cpu_secs() -> float:
    """Returns the processor time that this process has used, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Runs all of them and prints a table."""
    print(f"{'run':>16} {'step':>6} {'CPU s':>8} {'exact':>7} {'loss':>7} {'wall s':>7}")
    for name in sys.argv[1:] or RUNS:
        start_secs = time.monotonic()
        command = [sys.executable, __file__, "--child", *name.split(":")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            for line in child.stdout or ():
                row = json.loads(line)
                print(
                    f"{name:>16} {row['step']:>6} {row['train_cpu_secs']:>8.0f} "
                    f"{row['exact_match']:>7.3f} {row['loss']:>7.3f} "
                    f"{time.monotonic() - start_secs:>7.0f}",
                    flush=True,
                )
        if child.returncode:
            raise SystemExit(child.returncode)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        run_child(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
