"""Trains translation on real sentence pairs for some minutes, beside PyTorch, Hugging Face, Keras.

python benchmarks/real_corpus.py DIR [--minutes=15] [--precision=bfloat16]
    [--peers=quintain,torch,huggingface,keras-tensorflow,keras-jax] [--plot=FILE.svg]
python benchmarks/real_corpus.py DIR --minutes=2 --no-quality

DIR holds `train.tsv` and `valid.tsv`, lines of source, tab and target. Every peer gets the text and
one SentencePiece vocabulary of 8,000 tokens, and trains the model of `training_step.py` with Adam,
the same learning rates and batches of about as many tokens, as a user of it would:

- quintain: `translation/small` in the package's own trainer, with its own batches
  (`quintain-fast` trains `translation/fast`, a smaller model with smaller batches);
- torch: `nn.Transformer`, a `DataLoader` that sorts by length, masks of padding, fused Adam
  (`torch-compile` compiles it);
- huggingface: `Seq2SeqTrainer` on an `M2M100` of the same sizes, grouped by length;
- keras-tensorflow, keras-jax: `fit` on batches padded to one of seven lengths
  (`keras-tensorflow-nojit` does without XLA, which `compile` chooses by itself).

Time runs from the start of a peer's process, without its evaluations. Printed are the tokens a
second of both sides without padding, input included, after the first quarter of the time (JAX
compiles in it; give it minutes); the seconds to the first step; and at four times the loss a token
of 300 validation sentences, and sacreBLEU of their greedy translations, which Keras does not make.
`--plot` draws both over the time; it needs `pip install matplotlib`. The peers live in environments
of their own in the user's cache.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import peer_environments

HERE = pathlib.Path(__file__).parent
PEERS = HERE / "real_corpus_peers"
STEP_PEERS = HERE / "training_step_peers"
ENVIRONMENTS = {"torch": "step-torch", "huggingface": "step-torch", "keras": "step-keras"}
VOCAB_SIZE = 8000

Record = dict[str, Any]


def train_vocabulary(folder: pathlib.Path, path: pathlib.Path) -> None:
    """Trains the vocabulary that all share, from both sides of the training pairs."""
    from quintain.nlp.data import tokenizers

    lines = (folder / "train.tsv").read_text(encoding="utf-8").splitlines()
    sentences = (side for line in lines for side in line.split("\t"))
    tokenizers.train_sentencepiece(sentences, str(path), vocab_size=VOCAB_SIZE)


def read_references(folder: pathlib.Path, vocabulary: pathlib.Path) -> list[str]:
    """Returns the targets of the pairs that peers evaluate on."""
    sys.path[:0] = [str(PEERS), str(STEP_PEERS)]
    import corpus

    options = argparse.Namespace(corpus=folder, vocabulary=str(vocabulary))
    pairs = corpus.select_validation(corpus.read_pairs(options, "valid"))
    return decode([target for _, target in pairs], vocabulary)


def decode(rows: list[list[int]], vocabulary: pathlib.Path) -> list[str]:
    """Returns the text of ids."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=str(vocabulary))
    return [processor.decode(row) for row in rows]


def run(
    name: str, vocabulary: pathlib.Path, options: argparse.Namespace, *, core: int | None = None
) -> Record:
    """Trains one of the peers and returns what it printed: its `evaluations`, and the rest.

    Args:
        name: That of the peer.
        vocabulary: The SentencePiece model.
        options: The command line.
        core: The only core that it may use; None for all.

    Raises:
        RuntimeError: If it fails.
    """
    kind, _, variant = name.partition("-")
    environment = {**os.environ, "PYTHONPATH": str(STEP_PEERS)}
    if kind == "quintain":
        python = sys.executable
        environment["PYTHONPATH"] += os.pathsep + os.environ.get("PYTHONPATH", "")
    else:
        python = peer_environments.find_python(ENVIRONMENTS[kind])
    command = [python, str(PEERS / f"train_{kind}.py"), f"--corpus={options.corpus}"]
    command += [f"--vocabulary={vocabulary}", f"--precision={options.precision}"]
    command += [f"--secs={60 * options.minutes}", f"--evaluations={options.evaluations}"]
    command += [f"--batch_tokens={options.batch_tokens}", f"--clock={options.clock}"]
    command.append(f"--seed={options.seed}")
    if core is not None:
        command = ["taskset", "--cpu-list", str(core), *command]
    if options.quality:
        command.append("--translate")
    if variant in ("compile", "fast"):
        command.append(f"--{variant}")
    elif variant:
        environment["KERAS_BACKEND"], _, rest = variant.partition("-")
        if rest == "nojit":
            command.append("--nojit")
    with tempfile.TemporaryFile("w+") as log:
        command.append(f"--started={time.time()}")
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        )
        lines = []
        for line in process.stdout or ():
            # Hugging Face prints dictionaries of its own.
            if line.startswith('{"'):
                lines.append(json.loads(line))
                shown = {key: lines[-1][key] for key in lines[-1] if key != "translations"}
                print(f"{name} {json.dumps(shown)}", flush=True)
        if process.wait():
            log.seek(0)
            raise RuntimeError(f"{name} failed:\n{log.read()[-2000:]}")
    return {**lines[-1], "evaluations": lines[:-1]}


def add_scores(found: Record, references: list[str], vocabulary: pathlib.Path) -> str:
    """Adds `bleu` to the evaluations of a run that have translations; returns its signature.

    Without translations there is none.
    """
    from sacrebleu import metrics

    bleu = metrics.BLEU()
    for evaluation in found["evaluations"]:
        if "translations" in evaluation:
            texts = decode(evaluation["translations"], vocabulary)
            evaluation["translations"] = texts
            evaluation["bleu"] = bleu.corpus_score(texts, [references]).score
            print(f"  after {evaluation['secs']:.0f} s: sacreBLEU {evaluation['bleu']:.2f}")
            print(f"    for example: {texts[len(texts) // 2][:100]!r}", flush=True)
    has_scores = any("bleu" in evaluation for evaluation in found["evaluations"])
    return str(bleu.get_signature()) if has_scores else ""


def print_table(found: dict[str, list[Record]]) -> None:
    """Prints the medians of the rounds, and the ratios of ours to each peer's."""
    speeds = {
        name: statistics.median(one["tokens_per_sec"] for one in runs)
        for name, runs in found.items()
        if runs
    }
    print("peer               tokens/s  ours/theirs   steps   loss   sacreBLEU     MiB  first step")
    for name, speed in speeds.items():
        last = [one["evaluations"][-1] for one in found[name]]
        scores = [one["bleu"] for one in last if "bleu" in one]
        print(
            f"{name:18} {speed:8,.0f}  {speeds.get('quintain', float('nan')) / speed:11.2f}"
            f"  {statistics.median(one['steps'] for one in last):6.0f}"
            f"  {statistics.median(one['loss'] for one in last):5.3f}"
            f"  {f'{statistics.median(scores):.2f}' if scores else '-':>10}"
            f"  {statistics.median(one['mib'] for one in found[name]):6,.0f}"
            f"  {statistics.median(one['secs_to_first_step'] for one in found[name]):8.1f} s"
        )


def plot(found: dict[str, list[Record]], path: str) -> None:
    """Draws loss and sacreBLEU over the minutes of training, a line for each run."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for key, title, axis in zip(
        ("loss", "bleu"),
        ("Validation loss, nats a token", "sacreBLEU, greedy"),
        axes,
        strict=True,
    ):
        for number, (name, runs) in enumerate(found.items()):
            for place, one in enumerate(runs):
                points = [(e["secs"] / 60, e[key]) for e in one["evaluations"] if key in e]
                if points:
                    label = None if place else name
                    axis.plot(*zip(*points, strict=True), "o-", color=f"C{number}", label=label)
        axis.set_xlabel("Minutes of training, from the start of the process")
        axis.set_title(title)
        axis.grid(visible=True, alpha=0.3)
        if axis.lines:
            axis.legend()
    figure.savefig(path)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that `bleu_curves.py` has as well."""
    parser.add_argument("--precision", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument(
        "--batch_tokens", type=int, default=4096,
        help="tokens of a batch, both sides, with padding",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of weights, dropout and order")
    parser.add_argument(
        "--clock", choices=["wall", "processor"], default="wall",
        help="what the minutes are: of the clock, or of a peer's processor time",
    )  # fmt: skip
    parser.add_argument("--plot", metavar="FILE", help="draw the curves (pip install matplotlib)")
    parser.add_argument("--output", metavar="FILE", help="write all that was found, as JSON")


def check_options(
    parser: argparse.ArgumentParser, options: argparse.Namespace, *folders: pathlib.Path
) -> None:
    """Ends the process with an error for what can be seen before hours of training."""
    for folder in folders:
        for name in ("train.tsv", "valid.tsv"):
            if not (folder / name).is_file():
                parser.error(f"{folder} has no {name}")
    for name in options.peers.split(","):
        if not (PEERS / f"train_{name.partition('-')[0]}.py").is_file():
            parser.error(f"there is no peer {name!r}")
    if options.plot:
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            parser.error("--plot needs matplotlib: pip install matplotlib")


def parse_options() -> argparse.Namespace:
    """Returns the options, checked as far as can be done before hours of training."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--minutes", type=float, default=15.0, help="time of each run")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each peer, in turn")
    parser.add_argument("--peers", default="quintain,torch,huggingface,keras-tensorflow,keras-jax")
    parser.add_argument("--evaluations", type=int, default=4, help="evaluations in a run")
    parser.add_argument(
        "--no-quality", dest="quality", action="store_false", help="don't translate"
    )
    add_options(parser)
    options = parser.parse_args()
    check_options(parser, options, options.corpus)
    return options


def main() -> None:
    """Runs the peers in turn and prints the table."""
    options = parse_options()
    found: dict[str, list[Record]] = {name: [] for name in options.peers.split(",")}
    signature, failures = "", []
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = pathlib.Path(folder) / "vocabulary.model"
        train_vocabulary(options.corpus, vocabulary)
        references = read_references(options.corpus, vocabulary)
        for _ in range(options.rounds):
            for name, runs in found.items():
                try:
                    runs.append(run(name, vocabulary, options))
                except RuntimeError as error:
                    # The others' hours are worth keeping.
                    print(error, flush=True)
                    failures.append(name)
                    continue
                signature = add_scores(runs[-1], references, vocabulary)
                if options.output:
                    pathlib.Path(options.output).write_text(json.dumps(found, indent=1))
                if options.plot:
                    plot(found, options.plot)
    print_table(found)
    if options.quality:
        print(f"sacreBLEU: {signature}, {len(references)} sentences")
    if failures:
        raise SystemExit(f"failed: {', '.join(failures)}")


if __name__ == "__main__":
    main()
