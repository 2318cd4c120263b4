"""Compares sacreBLEU after equal times of training, ours and PyTorch's, in one or more languages.

python benchmarks/bleu_curves.py DIR [DIR ...] [--minutes=12] [--points=6] [--side-by-side]
    [--clock=wall|processor] [--plot=FILE.svg]

Each DIR is a corpus as of `real_corpus.py`, whose peers train here: the same pairs, vocabulary,
model, Adam and learning rates, and greedy translations of the same 300 sentences, in which a
translation may be 20 tokens longer than its source. Time runs from the start of a process, without
its evaluations. Printed are for each language loss and sacreBLEU at the same times, or up to five
steps later, and as minutes the later time of both.

Peers train one after the other. With `--side-by-side` they train at once, each on a core of its
own, so that what else runs on the machine slows all of them; from language to language they change
cores. `--clock=processor` counts the processor time of a peer instead of the clock's, in which a
busy machine does not count; with one core each, both are the same on an idle one.
"""

import argparse
import concurrent.futures
import functools
import json
import os
import pathlib
import tempfile
from collections.abc import Iterator

import real_corpus

Found = dict[str, real_corpus.Record]


def parse_options() -> argparse.Namespace:
    """Returns the options, checked as far as can be done before hours of training."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", nargs="+", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--minutes", type=float, default=12.0, help="time of each run")
    parser.add_argument("--points", type=int, default=6, help="evaluations in a run")
    parser.add_argument("--peers", default="quintain,torch")
    parser.add_argument("--side-by-side", action="store_true", help="at once, on a core each")
    real_corpus.add_options(parser)
    options = parser.parse_args()
    real_corpus.check_options(parser, options, *options.corpora)
    options.peers = options.peers.split(",")
    if options.side_by_side and len(options.peers) > len(os.sched_getaffinity(0)):
        parser.error(
            f"--side-by-side: got {len(options.peers)} peers, expected no more than the "
            f"{len(os.sched_getaffinity(0))} cores that this process may use"
        )
    if len({corpus.name for corpus in options.corpora}) < len(options.corpora):
        parser.error("the directories of the corpora must have different names")
    return options


def compare(corpus: pathlib.Path, number: int, options: argparse.Namespace) -> Found:
    """Trains all peers on the corpus of this number, and returns what they found, with scores."""
    settings = argparse.Namespace(
        **vars(options), corpus=corpus, evaluations=options.points, quality=True
    )
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = pathlib.Path(folder) / "vocabulary.model"
        real_corpus.train_vocabulary(corpus, vocabulary)
        references = real_corpus.read_references(corpus, vocabulary)
        train = functools.partial(real_corpus.run, vocabulary=vocabulary, options=settings)
        if options.side_by_side:
            cores = sorted(os.sched_getaffinity(0))[: len(options.peers)]
            shift = number % len(cores)
            with concurrent.futures.ThreadPoolExecutor() as pool:
                runs = [
                    pool.submit(train, name, core=core)
                    for name, core in zip(options.peers, cores[shift:] + cores[:shift], strict=True)
                ]
                found = {name: run.result() for name, run in zip(options.peers, runs, strict=True)}
        else:
            found = {name: train(name) for name in options.peers}
        for name, one in found.items():
            print(f"{corpus.name}, {name}:")
            signature = real_corpus.add_scores(one, references, vocabulary)
    print(f"sacreBLEU: {signature}, {len(references)} sentences")
    return found


def make_rows(found: Found) -> Iterator[str]:
    """Yields the lines of a language's table: a line for each time, two columns for each peer."""
    yield "minutes" + "".join(f"{name + ' loss':>18}{'sacreBLEU':>11}" for name in found)
    for points in zip(*(one["evaluations"] for one in found.values()), strict=False):
        minutes = max(point["secs"] for point in points) / 60
        values = "".join(f"{point['loss']:18.3f}{point['bleu']:11.2f}" for point in points)
        yield f"{minutes:7.1f}{values}"


def plot(languages: dict[str, Found], options: argparse.Namespace) -> None:
    """Draws sacreBLEU and loss over the minutes, a column for each language."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    size = (5 * len(languages), 7)
    figure, axes = pyplot.subplots(
        2, len(languages), figsize=size, layout="constrained", squeeze=False
    )
    titles = {"bleu": "sacreBLEU, greedy", "loss": "Validation loss, nats a token"}
    for column, (language, found) in enumerate(languages.items()):
        for axis, (key, title) in zip(axes[:, column], titles.items(), strict=True):
            for name, one in found.items():
                points = one["evaluations"]
                times = [point["secs"] / 60 for point in points]
                axis.plot(times, [point[key] for point in points], "o-", label=name)
            axis.set_title(f"{language}: {title}")
            axis.grid(visible=True, alpha=0.3)
            axis.legend()
        kind = "processor time" if options.clock == "processor" else "training"
        axes[-1, column].set_xlabel(f"Minutes of {kind}")
    figure.savefig(options.plot)


def main() -> None:
    """Trains in each language, and prints the tables."""
    options = parse_options()
    languages: dict[str, Found] = {}
    for number, corpus in enumerate(options.corpora):
        languages[corpus.name] = compare(corpus, number, options)
        if options.output:
            pathlib.Path(options.output).write_text(json.dumps(languages, indent=1))
        if options.plot:
            plot(languages, options)
    for language, found in languages.items():
        print(f"\n{language}, {options.precision}, {options.clock} time")
        print("\n".join(make_rows(found)))
        print(
            "tokens/s " + ", ".join(f"{n} {one['tokens_per_sec']:,.0f}" for n, one in found.items())
        )


if __name__ == "__main__":
    main()
