"""Compares what variants of `translation/small` have learnt after equal processor time.

nice -n 10 python benchmarks/learning.py DIR [DIR ...] [--levers=budget,muon] [--seeds=3]
    [--points=30,60,120] [--pairs=300] [--results=FILE.jsonl] [--stop-above=1.1] [--table]

Each DIR is a corpus of `catalogue_pairs.py`: train.tsv, valid.tsv and test.tsv. A lever is a set of
overrides of the experiment (`LEVERS`; `muon+narrow` has both), or a change of the model's classes
or the data that no setting has (`learning_levers.py`). Every run is a process with one thread and
one seed of weights and data. Its time is the processor time of this process after the first step,
without evaluations, so that runs compare on a busy machine. Where `clock.warmup` is set, the
learning rate follows that time: it rises for this share of it, and falls along a line to 0 at its
end, from the warm-up on or for the share `clock.decay`.

At the points of time, `--pairs` pairs each of valid.tsv and test.tsv are evaluated: the loss, in
nats a character of the target, and sacreBLEU of greedy translations.
Choose levers by `valid`, and report `test`. The table has the differences to the first lever,
paired by seed, with 95 % intervals of Student's t. `--stop-above=R` ends a run whose loss at a
point before the end is more than R times that of the first lever with the same seed.

Runs are lines of the results file. A second call skips what is there, also after a kill, and
`--table` runs nothing.
"""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time
import zlib
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
HERE = pathlib.Path(__file__).parent
sys.path += [str(HERE / "real_corpus_peers"), str(HERE / "training_step_peers")]

Record = dict[str, Any]
OPTIMIZER = "trainer.optimizer_config.optimizer"
MUON = {
    "type": "muon",
    "muon": {
        "global_clipnorm": 1.0,
        "adam_beta_2": 0.98,
        "weight_decay": 0.0,
        "adam_weight_decay": 0.0,
    },
}


def set_rate(rate: float, warmup: float = 0.1) -> Record:
    """Returns overrides for a learning rate that follows the clock."""
    return {
        "trainer.optimizer_config.learning_rate": {
            "type": "constant",
            "constant": {"learning_rate": rate},
        },
        "trainer.optimizer_config.warmup": {"type": None},
        "clock.warmup": warmup,
    }


def set_sides(**fields: float | str) -> Record:
    """Returns overrides for the same fields of encoder and decoder."""
    return {
        f"task.model.{side}.{field}": value
        for side in ("encoder", "decoder")
        for field, value in fields.items()
    }


NO_DROPOUT = {
    "task.model.dropout_rate": 0.0,
    **set_sides(dropout_rate=0.0, attention_dropout_rate=0.0, intermediate_dropout=0.0),
}
CONSTANT = {"clock.decay": 1e-6}
LEVERS: dict[str, Record] = {
    "default": {},
    "budget": set_rate(1e-3),
    "rate/2": set_rate(5e-4),
    "rate*2": set_rate(2e-3),
    "rate*4": set_rate(4e-3),
    "rate*8": set_rate(8e-3),
    "warm-up 2%": {"clock.warmup": 0.02},
    "warm-up 30%": {"clock.warmup": 0.3},
    "muon": {OPTIMIZER: MUON},
    "muon beta_2 0.999": {f"{OPTIMIZER}.muon.adam_beta_2": 0.999},
    "muon 3 steps": {f"{OPTIMIZER}.muon.ns_steps": 3},
    "muon 2 steps": {f"{OPTIMIZER}.muon.ns_steps": 2},
    "muon momentum 0.9": {f"{OPTIMIZER}.muon.momentum": 0.9},
    "muon adam*2": {f"{OPTIMIZER}.muon.adam_lr_ratio": 2.0},
    "muon adam*4": {f"{OPTIMIZER}.muon.adam_lr_ratio": 4.0},
    "muon adam/4": {f"{OPTIMIZER}.muon.adam_lr_ratio": 0.25},
    "batch/2": {"task.train_data.global_batch_size": 1024},
    "batch/4": {"task.train_data.global_batch_size": 512},
    "batch/8": {"task.train_data.global_batch_size": 256},
    "no dropout": NO_DROPOUT,
    "no smoothing": {"task.model.label_smoothing": 0.0},
    "vocabulary/2": {"vocabulary": 4000},
    "deep encoder": {"task.model.encoder.num_layers": 5, "task.model.decoder.num_layers": 1},
    "shallow decoder": {"task.model.decoder.num_layers": 1},
    "two layers": set_sides(num_layers=2),
    "narrow": {
        "task.model.embedding_width": 256,
        **set_sides(intermediate_size=1024, num_attention_heads=4),
    },
    "beta_1 0.8": {f"{OPTIMIZER}.adam.beta_1": 0.8},
    "beta_2 0.999": {f"{OPTIMIZER}.adam.beta_2": 0.999},
    "wsd": {"clock.decay": 0.2},
    "shorter first": {"clock.phases": [(0.0, {"max_seq_length": 24}), (0.3, {})]},
    "growing batch": {"clock.phases": [(0.5, {"global_batch_size": 1024})]},
    "zero outputs": {"outputs": 0.0},
    "half outputs": {"outputs": 0.5},
    **{
        f"embeddings*{factor}": {f"{OPTIMIZER}.adam.learning_rate_factors": {"embedding": factor}}
        for factor in (4, 8, 16, 32)
    },
    "qk norm": {"change.qk_norm": True},
    "value residual": {"change.value_residual": True},
    "relu squared": {"change.relu_squared": True},
    "gated": set_sides(activation="swiglu", intermediate_size=680),
    "soft cap": {"change.soft_cap": True},
    "target noise": {"change.target_noise": True},
    "frequency smoothing": {"change.frequency_smoothing": True},
    "soap": {"change.soap": True},
    "schedule-free": {"change.schedule_free": True, **CONSTANT},
    "constant rate": CONSTANT,
    "average 0.9": {"trainer.optimizer_config.ema": {"average_decay": 0.9}},
    "average 0.98": {"trainer.optimizer_config.ema": {"average_decay": 0.98}},
    "late dropout": {"clock.dropout": 0.5},
    "r-drop": {"change.r_drop": True},
    "bpe": {"vocabulary.type": "bpe"},
}
PARTS = ("train.tsv", "valid.tsv", "test.tsv")


def merge(lever: str) -> Record:
    """Returns the overrides of levers that are joined by `+`."""
    return {path: value for part in lever.split("+") for path, value in LEVERS[part].items()}


def build_vocabulary(corpus: pathlib.Path, size: int, kind: str) -> pathlib.Path:
    """Returns the vocabulary of the training pairs; it is trained if it is not there yet."""
    from quintain.nlp.data import tokenizers

    path = corpus / f"vocabulary-{size}{'' if kind == 'unigram' else f'-{kind}'}.model"
    if not path.exists():
        sides = (corpus / "train.tsv").read_text(encoding="utf-8").replace("\t", "\n").splitlines()
        unfinished = path.with_suffix(".unfinished")
        tokenizers.train_sentencepiece(
            iter(sides), str(unfinished), vocab_size=size, model_type=kind
        )
        unfinished.rename(path)
    return path


class Evaluation:
    """Loss and sacreBLEU of a model on the first pairs of valid.tsv and of test.tsv."""

    def __init__(self, model: Any, vocabulary: pathlib.Path, task: Record) -> None:
        import corpus as pairs
        import sentencepiece
        import tensorflow as tf

        from quintain.modeling import token_losses
        from quintain.nlp.modeling.ops import decoding

        shape = tf.TensorSpec([None, None], tf.int32)
        greedy = decoding.DecodingOptions(sampling_temperature=0.0)

        @tf.function(input_signature=[shape, shape])
        def compute_loss(sources: Any, targets: Any) -> Any:
            logits = model({"inputs": sources, "targets": targets}, training=False)
            losses, _ = token_losses.padded_cross_entropy(logits, targets, smoothing=0.0)
            return tf.reduce_sum(losses)

        @tf.function(input_signature=[shape])
        def translate(sources: Any) -> Any:
            return model.decode(sources, greedy)["outputs"][:, 0]

        self._compute_loss, self._translate = compute_loss, translate
        self._cut = pairs.cut
        self._processor = sentencepiece.SentencePieceProcessor(model_file=str(vocabulary))
        options = argparse.Namespace(
            corpus=pathlib.Path(task["corpus"]), vocabulary=str(vocabulary)
        )
        self._batches: dict[str, list[Any]] = {}
        for part in ("valid", "test"):
            found = pairs.read_pairs(options, part)[: task["pairs"]]
            rows = sorted(found, key=lambda pair: len(pair[0]))
            self._batches[part] = [
                tuple(pairs.pad([pair[side] for pair in rows[i : i + 50]]) for side in range(2))
                for i in range(0, len(rows), 50)
            ]

    def run(self) -> dict[str, float]:
        """Returns `valid_loss`, `valid_bleu`, `test_loss` and `test_bleu`."""
        from sacrebleu import metrics

        found = {}
        for part, batches in self._batches.items():
            loss, translations, references = 0.0, list[str](), list[str]()
            for sources, targets in batches:
                loss += float(self._compute_loss(sources.astype("int32"), targets.astype("int32")))
                outputs = self._translate(sources.astype("int32")).numpy().tolist()
                translations += self._processor.decode([self._cut(row) for row in outputs])
                references += self._processor.decode([self._cut(row) for row in targets.tolist()])
            found[f"{part}_loss"] = loss / sum(map(len, references))
            found[f"{part}_bleu"] = metrics.BLEU().corpus_score(translations, [references]).score
        return found


def train(task: Record) -> None:
    """Trains once, and prints a line of JSON at each point of time.

    Args:
        task: `corpus`, `lever`, `seed`, `points`, and `limits` of the loss at these.
    """
    import keras
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)

    import corpus as pairs
    import learning_levers
    import learning_optimizers

    import quintain.registered_experiments  # noqa: F401 - registers the experiments
    from quintain.core import exp_factory, task_factory
    from quintain.distribute import distribution, runtime_environment
    from quintain.garden.core import train_utils
    from quintain.optimization.schedules import learning_rate_scale

    overrides = merge(task["lever"])
    warmup = overrides.pop("clock.warmup", None)
    decay = overrides.pop("clock.decay", None)
    phases = overrides.pop("clock.phases", ())
    dropout_start = overrides.pop("clock.dropout", 0.0)
    outputs = overrides.pop("outputs", 1.0)
    changes = [path for path in overrides if path.startswith("change.")]
    for path in changes:
        del overrides[path]
    learning_levers.change([path.removeprefix("change.") for path in changes])
    corpus = pathlib.Path(task["corpus"])
    vocabulary = build_vocabulary(
        corpus, overrides.pop("vocabulary", 8000), overrides.pop("vocabulary.type", "unigram")
    )
    params = exp_factory.get_exp_config("translation/small")
    overrides = {
        "task.train_data.input_path": str(corpus / "train.tsv"),
        "task.validation_data.input_path": str(corpus / "valid.tsv"),
        "task.sentencepiece_model_path": str(vocabulary),
        "task.model.extra_decode_length": 20,
        "runtime.seed": task["seed"],
        **overrides,
    }
    for path, value in overrides.items():
        for name in reversed(path.split(".")):
            value = {name: value}
        params.override(value)
    params.validate()
    runtime_environment.prepare(params.runtime)
    keras.utils.set_random_seed(task["seed"])
    strategy = distribution.build_strategy(params.runtime)
    with distribution.precision(params.runtime), strategy.scope():
        built = task_factory.get_task(params.task, logging_dir="")
        trainer = train_utils.create_trainer(params, built, train=True, evaluate=False)
    learning_levers.scale_outputs(trainer.model, outputs)
    dropout = learning_levers.LateDropout(trainer, dropout_start)
    data = learning_levers.Phases(trainer, params.task.train_data, phases)
    evaluation = Evaluation(trainer.model, vocabulary, task)
    if warmup is not None:
        learning_rate_scale.prepare(trainer.optimizer)

    parent, end, factor, tokens = os.getppid(), task["points"][-1], 1.0, 0.0
    data.enter(0.0)
    trainer.train(tf.constant(1))
    start, steps = time.process_time(), 1
    for point, limit in zip(task["points"], task["limits"], strict=True):
        while (secs := time.process_time() - start) < point:
            data.enter(secs / end)
            if dropout.enter(secs / end):  # Off the clock: it is traced again.
                before = time.process_time()
                trainer.train(tf.constant(1))
                start += time.process_time() - before
            if warmup is not None:
                previous, factor = factor, pairs.scale_rate(secs / end, warmup, decay)
                learning_rate_scale.scale(trainer.optimizer, factor=factor, previous=previous)
            logs = trainer.train(tf.constant(1))
            if os.getppid() != parent:
                return
            steps += 1
            tokens += logs["tokens_per_second"] * logs["step_ms"] / 1000
        before = time.process_time()
        inner = learning_rate_scale.find_inner(trainer.optimizer)
        with (
            learning_optimizers.at_mean(inner, trainer.model.trainable_variables),
            trainer.average.averaged() if trainer.average else contextlib.nullcontext(),
        ):
            found = evaluation.run()
        line = {"secs": secs, "steps": steps, "tokens": round(tokens), **found}
        print(json.dumps(line), flush=True)
        if limit is not None and found["valid_loss"] > limit:
            return
        start += time.process_time() - before


def run(task: Record, log: pathlib.Path) -> list[Record]:
    """Trains in a process of its own, and returns what is known of each point of time."""
    with log.open("a", encoding="utf-8") as errors:
        command = [sys.executable, __file__, "--child", json.dumps(task)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        lines = []
        for line in process.stdout or ():
            if line.startswith('{"'):
                lines.append(json.loads(line))
                print(f"  {line.strip()}", flush=True)
        if process.wait():
            raise SystemExit(f"{task['lever']} failed; {log} says why")
    return lines


def read_results(path: pathlib.Path) -> list[Record]:
    """Returns the runs of a results file, without lines that a kill cut off."""
    found = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                continue
    return found


def make_key(record: Record) -> str:
    """Returns what a run depends on, as text."""
    fields = ("content", "lever", "overrides", "seed", "points", "pairs")
    return json.dumps([record[field] for field in fields])


def print_table(results: list[Record], levers: list[str], points: list[float]) -> None:
    """Prints the mean differences to the first lever at each point of time, by corpus."""
    for corpus in dict.fromkeys(record["corpus"] for record in results):
        print(f"\n{pathlib.Path(corpus).name}: difference to {levers[0]}, mean and 95 % interval")
        print(f"{'lever':24} {'secs':>5} {'seeds':>5} {'steps':>6}", end="")
        names = ("valid_loss", "valid_bleu", "test_loss", "test_bleu")
        print("".join(f" {name:>24}" for name in names))
        by_seed = {
            lever: {
                record["seed"]: record["found"]
                for record in results
                if (record["corpus"], record["lever"], record["points"]) == (corpus, lever, points)
            }
            for lever in levers
        }
        for lever in levers:
            for number, point in enumerate(points):
                seeds = [
                    seed
                    for seed, found in by_seed[lever].items()
                    if number < len(found) and number < len(by_seed[levers[0]].get(seed, ()))
                ]
                if not seeds:
                    continue
                ours = [by_seed[lever][seed][number] for seed in seeds]
                theirs = [by_seed[levers[0]][seed][number] for seed in seeds]
                steps = statistics.mean(one["steps"] for one in ours)
                row = f"{lever:24} {point:5g} {len(seeds):5} {steps:6.0f}"
                for name in names:
                    mean = statistics.mean(one[name] for one in ours)
                    if lever != levers[0]:
                        differences = [a[name] - b[name] for a, b in zip(ours, theirs, strict=True)]
                        cell = f"{mean:.2f} {format_interval(differences)}"
                    else:
                        cell = f"{mean:.3f}"
                    row += f" {cell:>24}"
                print(row)


def format_interval(differences: list[float]) -> str:
    """Returns the mean of paired differences with half the width of its 95 % interval."""
    from scipy import stats

    mean, count = statistics.mean(differences), len(differences)
    if count < 2:
        return f"{mean:+.3f}"
    half = stats.t.ppf(0.975, count - 1) * statistics.stdev(differences) / count**0.5
    return f"{mean:+.3f} ± {half:.3f}"


def parse_points(text: str) -> list[float]:
    """Returns the seconds at which to evaluate, for `argparse`."""
    try:
        points = [float(point) for point in text.split(",")]
    except ValueError:
        points = []
    if not points or sorted(set(points)) != points or points[0] <= 0:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected rising seconds such as 30,60,120")
    return points


def parse_options() -> argparse.Namespace:
    """Returns the options, checked before hours of training."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", nargs="+", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--levers", default=",".join(LEVERS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--points", type=parse_points, default="30,60,120", help="seconds at which to evaluate"
    )
    parser.add_argument("--pairs", type=int, default=300, help="to evaluate on, of each part")
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("learning.jsonl"))
    parser.add_argument("--stop-above", type=float, metavar="R", default=float("inf"))
    parser.add_argument("--table", action="store_true", help="print the table, run nothing")
    options = parser.parse_args()
    options.levers = options.levers.split(",")
    for part in {part for lever in options.levers for part in lever.split("+")} - LEVERS.keys():
        parser.error(f"--levers: there is no {part!r}; there are {', '.join(LEVERS)}")
    for name in ("seeds", "pairs"):
        if getattr(options, name) < 1:
            parser.error(f"--{name}: got {getattr(options, name)}, expected at least 1")
    for corpus in options.corpora:
        for part in PARTS:
            if not (corpus / part).is_file():
                parser.error(f"{corpus} has no {part}; catalogue_pairs.py makes a corpus")
    return options


def main() -> None:
    """Runs what is missing, and prints the table."""
    options = parse_options()
    results = read_results(options.results)
    done = {make_key(record): record for record in results}
    tasks = [
        {
            "corpus": str(corpus),
            "content": [zlib.crc32((corpus / part).read_bytes()) for part in PARTS],
            "lever": lever,
            "overrides": merge(lever),
            "seed": seed,
            "points": options.points,
            "pairs": options.pairs,
        }
        for corpus in options.corpora
        for seed in range(options.seeds)
        for lever in options.levers
    ]
    for task in () if options.table else tasks:
        if make_key(task) in done:
            continue
        first = done.get(make_key({**task, "lever": options.levers[0],
                                   "overrides": merge(options.levers[0])}))  # fmt: skip
        limits: list[float | None] = [None] * len(options.points)
        if first:
            losses = [one["valid_loss"] for one in first["found"][:-1]]
            limits = [options.stop_above * loss for loss in losses] + [None]
        print(f"{task['lever']}, {pathlib.Path(task['corpus']).name}, seed {task['seed']}")
        found = run({**task, "limits": limits}, options.results.with_suffix(".log"))
        record = {**task, "found": found, "processor": read_processor()}
        done[make_key(record)] = record
        results.append(record)
        with options.results.open("a", encoding="utf-8") as file:
            file.write(f"\n{json.dumps(record)}")  # A kill cuts off one record at most.
    asked = {make_key(task) for task in tasks}
    shown = [record for record in results if make_key(record) in asked]
    for processor in {record["processor"] for record in shown}:
        print(processor)
    print_table(shown, options.levers, options.points)


def read_processor() -> str:
    """Returns the name of the processor."""
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        train(json.loads(sys.argv[2]))
    else:
        main()
