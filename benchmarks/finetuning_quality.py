"""Compares what fine-tuning has learnt after equal processor time with Hugging Face's `Trainer`.

nice -n 10 python benchmarks/finetuning_quality.py [--experiments=tagging/local] [--seeds=5]
    [--peers=quintain,huggingface,huggingface-like-ours] [--points=30,90]
    [--results=FILE.jsonl] [--table]

`quintain` trains the experiment as it is. `huggingface` trains a BERT of Hugging Face of the same
sizes, from random weights too, by the defaults of `TrainingArguments` (AdamW at 5e-5 that falls
along a line, 8 examples a step, dropout of 0.1), and `huggingface-like-ours` with the learning
rate, warm-up, batch size and dropout of our experiment. Ours normalises a block's inputs, BERT its
outputs. All see the same ids; Hugging Face's batches are padded to their longest example.
`quintain-40-positions` is for `tagging/local`, whose examples have at most 34 tokens: 40 positions
instead of 64.

Every run is a process with one thread and one seed of weights and data. Its time is the processor
time of this process after the first step, without evaluations, so that runs compare on a busy
machine. The learning rates follow that time, and end at the last of the `--points`.

At the points of time, the validation part is predicted, and scored for all by the same functions:
entities' F1 of `tagging/local`, the answers' exact match and F1 of `question_answering/local`, and
the loss in nats. The table has the differences to the first peer, paired by seed, with 95 %
intervals of Student's t.

Runs are lines of the results file. A second call skips what is there, also after a kill, and
`--table` runs nothing.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from typing import Any

import learning
import peer_environments

HERE = pathlib.Path(__file__).parent / "finetuning_peers"
Record = dict[str, Any]
FEWER_POSITIONS = {
    "model": {"encoder": {"bert": {"max_position_embeddings": 40}}},
    "train_data": {"seq_length": 40},
    "validation_data": {"seq_length": 40},
}
PEERS: dict[str, tuple[str, str | None, Record]] = {
    "quintain": ("quintain_quality.py", None, {}),
    "huggingface": ("huggingface_quality.py", "step-torch", {}),
    "huggingface-like-ours": ("huggingface_quality.py", "step-torch", {"has_our_settings": True}),
    "quintain-40-positions": ("quintain_quality.py", None, {"task": FEWER_POSITIONS}),
}
"""Program, environment and settings of each peer."""

METRICS = {
    "tagging/local": ("f1", "loss"),
    "question_answering/local": ("exact_match", "f1", "loss"),
}


class Corpus:
    """The examples of an experiment, and the scores of logits of its validation part."""

    def __init__(self, experiment: str, folder: str) -> None:
        from quintain.core import exp_factory, task_factory
        from quintain.nlp.experiments import fine_tuning  # noqa: F401 - registers the experiments

        self._params = exp_factory.get_exp_config(experiment)
        self._task: Any = task_factory.get_task(self._params.task, logging_dir=folder)
        self._validation: Record = {}
        self.path = str(pathlib.Path(folder) / experiment.replace("/", "-"))

    def write(self) -> None:
        """Writes the examples of both parts, and what peers need to know of the experiment."""
        import numpy as np

        params = self._params
        columns = {}
        for part, config in (
            ("train", params.task.train_data),
            ("validation", params.task.validation_data),
        ):
            found: dict[str, list[Any]] = {}
            plain = config.replace(is_training=False, drop_remainder=False)
            for features, labels in self._task.build_inputs(plain):
                named = labels if isinstance(labels, dict) else {"label_ids": labels}
                for name, rows in {**features, **named}.items():
                    found.setdefault(name, []).append(rows.numpy())
            for name, batches in found.items():
                columns[f"{part}_{name}"] = np.concatenate(batches)
        self._validation = columns
        np.savez(f"{self.path}.npz", **columns)
        encoder = params.task.model.encoder.bert
        names = (
            "vocab_size",
            "hidden_size",
            "num_attention_heads",
            "intermediate_size",
            "max_position_embeddings",
        )
        sizes = {name: getattr(encoder, name) for name in names}
        optimizer = params.trainer.optimizer_config
        described = {
            "sizes": {**sizes, "num_hidden_layers": encoder.num_layers},
            "dropouts": {
                "hidden_dropout_prob": encoder.dropout_rate,
                "attention_probs_dropout_prob": encoder.attention_dropout_rate,
            },
            "num_classes": len(getattr(params.task, "class_names", None) or (0, 1)),
            "rate": optimizer.learning_rate.polynomial.initial_learning_rate,
            "warmup": optimizer.warmup.polynomial.warmup_steps / params.trainer.train_steps,
            "batch_size": params.task.train_data.global_batch_size,
        }
        pathlib.Path(f"{self.path}.json").write_text(json.dumps(described))

    def score(self, logits: Any) -> dict[str, float]:
        """Returns metrics and loss of logits of the validation part.

        They are `[N, S, C]` of classes, or `[N, S, 2]` of the begins and ends of answers.
        """
        import numpy as np
        from scipy import special

        if (labels := self._validation.get("validation_label_ids")) is not None:
            labels = labels[:, : logits.shape[1]]
            logs = special.log_softmax(logits, axis=2)
            right = np.take_along_axis(logs, np.maximum(labels, 0)[..., np.newaxis], 2)[..., 0]
            outputs = {"predict_ids": logits.argmax(-1), "label_ids": labels}
            state = self._task.aggregate_logs(None, outputs)
            return {
                "loss": -float(right[labels >= 0].mean()),
                **self._task.reduce_aggregated_logs(state),
            }
        logs, rows = special.log_softmax(logits, axis=1), np.arange(len(logits))
        sides = [
            logs[rows, self._validation[f"validation_{side}_positions"].reshape(-1), number]
            for number, side in enumerate(("start", "end"))
        ]
        outputs = {
            "unique_ids": self._validation["validation_unique_ids"],
            "start_logits": logits[..., 0],
            "end_logits": logits[..., 1],
        }
        state = self._task.aggregate_logs(None, outputs)
        found = self._task.reduce_aggregated_logs(state)
        return {"loss": -float(np.mean(sides)), "exact_match": found["exact"], "f1": found["f1"]}


def run(task: Record, corpus: Corpus, log: pathlib.Path) -> list[Record]:
    """Trains in a process of its own, and returns what is known of each point of time."""
    import numpy as np

    program, environment, _ = PEERS[task["peer"]]
    python = peer_environments.find_python(environment) if environment else sys.executable
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    found = []
    with tempfile.TemporaryDirectory() as folder, log.open("a", encoding="utf-8") as errors:
        settings = {**task, "data": corpus.path, "logits": f"{folder}/logits"}
        settings["driver"] = os.getpid()
        process = subprocess.Popen(
            [python, program, json.dumps(settings)],
            cwd=HERE,
            env={"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, **one_thread},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        for line in process.stdout or ():
            if line.startswith('{"'):
                known = json.loads(line)
                known.update(corpus.score(np.load(known.pop("logits"))))
                found.append(known)
                print(f"  {known}", flush=True)
        if process.wait() or len(found) < len(task["points"]):
            raise SystemExit(f"{task['peer']} failed; {log} says why")
    return found


def make_key(record: Record) -> str:
    """Returns which run it is, as text."""
    return json.dumps([record[name] for name in ("experiment", "peer", "seed", "points")])


def print_table(results: list[Record], experiment: str, options: argparse.Namespace) -> None:
    """Prints the means at each point of time, with the differences to the first peer."""
    names, (first, *_) = METRICS[experiment], options.peers
    print(f"\n{experiment}: mean, and difference to {first} with 95 % interval")
    print(f"{'peer':24} {'secs':>5} {'seeds':>5} {'steps':>6}", end="")
    print("".join(f" {name:>24}" for name in names))
    for number, point in enumerate(options.points):
        by_peer = {
            peer: {
                one["seed"]: one["found"][number]
                for one in results
                if (one["peer"], one["experiment"]) == (peer, experiment)
            }
            for peer in options.peers
        }
        for peer, found in by_peer.items():
            seeds = sorted(found.keys() & by_peer[first].keys())
            if not seeds:
                continue
            steps = statistics.mean(found[seed]["steps"] for seed in seeds)
            row = f"{peer:24} {point:5g} {len(seeds):5} {steps:6.0f}"
            for name in names:
                cell = f"{statistics.mean(found[seed][name] for seed in seeds):.3f}"
                if peer != first:
                    differences = [found[one][name] - by_peer[first][one][name] for one in seeds]
                    cell += f" {learning.format_interval(differences)}"
                row += f" {cell:>24}"
            print(row)


def parse_options() -> argparse.Namespace:
    """Returns the options, checked before hours of training."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--experiments", default="tagging/local")
    parser.add_argument("--peers", default="quintain,huggingface,huggingface-like-ours")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--points", type=learning.parse_points, default="30,90", help="seconds at which to evaluate"
    )
    parser.add_argument(
        "--results", type=pathlib.Path, default=pathlib.Path("finetuning_quality.jsonl")
    )
    parser.add_argument("--table", action="store_true", help="print the table, run nothing")
    options = parser.parse_args()
    for name, known in (("experiments", METRICS), ("peers", PEERS)):
        setattr(options, name, getattr(options, name).split(","))
        for one in getattr(options, name):
            if one not in known:
                parser.error(f"--{name}: there is no {one!r}; there are {', '.join(known)}")
    if options.seeds < 1:
        parser.error(f"--seeds: got {options.seeds}, expected at least 1")
    return options


def main() -> None:
    """Runs what is missing, and prints the table."""
    options = parse_options()
    results = learning.read_results(options.results)
    done = {make_key(record) for record in results}
    for experiment in options.experiments:
        tasks = [
            {"experiment": experiment, "peer": peer, "seed": seed, "points": options.points}
            for seed in range(options.seeds)
            for peer in options.peers
        ]
        missing = [task for task in tasks if make_key(task) not in done]
        with tempfile.TemporaryDirectory() as folder:
            if missing and not options.table:
                corpus = Corpus(experiment, folder)
                corpus.write()
            for task in () if options.table else missing:
                print(f"{experiment}, {task['peer']}, seed {task['seed']}", flush=True)
                settings = {**task, "overrides": PEERS[task["peer"]][2]}
                found = run(settings, corpus, options.results.with_suffix(".log"))
                record = {**task, "found": found, "processor": learning.read_processor()}
                results.append(record)
                with options.results.open("a", encoding="utf-8") as file:
                    file.write(f"\n{json.dumps(record)}")  # A kill cuts off one record at most.
        asked = {make_key(task) for task in tasks}
        shown = [record for record in results if make_key(record) in asked]
        for processor in {record["processor"] for record in shown}:
            print(processor)
        print_table(shown, experiment, options)


if __name__ == "__main__":
    main()
