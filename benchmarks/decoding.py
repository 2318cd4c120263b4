"""Times beam search over real sentences beside Hugging Face, CTranslate2 and the reference.

python benchmarks/decoding.py MODEL_DIR SENTENCES [--rounds=3] [--batch_size=64] [--peers=...]

MODEL_DIR is a translation run of post-norm layers with biases, as MarianMT has them. Where it holds
no run, one is trained for `--train_steps` on `--pairs` (TSV). SENTENCES has one on each line; what
follows a tab is left out. All decode with the same weights, the same batch size and no length
normalisation; they differ in rounding, and in when they stop. Peers get ids and return ids,
Quintain text and text. Rounds go A B C A B C; peers live in environments of their own in the user's
cache. With `--threads=1` the processor time is what to look at on a machine that others use too.
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
from collections.abc import Callable
from typing import Any

import peer_environments

PEERS = pathlib.Path(__file__).parent / "decoding_search" / "peers.py"
OURS = {
    "quintain": "float32",
    "quintain_bfloat16": "bfloat16",
    "quintain_int8": "int8",
}


def train(model_dir: str, pairs: str, train_steps: int) -> None:
    """Trains a model of width 512 and 3 + 3 layers for a short time."""
    settings = {"task.train_data.input_path": pairs, "task.validation_data.input_path": pairs}
    settings |= {"task.vocab_size": 8000, "task.model.embedding_width": 512}
    settings |= {"trainer.train_steps": train_steps, "task.model.dropout_rate": 0.1}
    settings |= {"trainer.optimizer_config.warmup.linear.warmup_steps": 150}
    for side in ("encoder", "decoder"):
        layers = {"intermediate_size": 2048, "num_attention_heads": 8, "norm_first": "false"}
        layers |= {"use_bias": "true", "dropout_rate": 0.1}
        settings |= {f"task.model.{side}.{name}": value for name, value in layers.items()}
    command = [sys.executable, "-m", "quintain.cli.main", "train", "--mode=train"]
    command += ["--experiment=translation/small", f"--model_dir={model_dir}"]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    subprocess.run(command, check=True)


def write_weights(model: Any, folder: pathlib.Path, longest: int) -> None:
    """Writes the weights and the sizes for the peers."""
    import numpy as np
    import tensorflow as tf

    weights = {
        "embedding": model.embedding.numpy(),
        "positions": model._encode_positions(
            tf.range(longest + model.extra_decode_length + 2)
        ).numpy(),
    }
    layers = {
        "query_key_value": "self_attention.query_key_value",
        "output": "self_attention.output_projection",
        "self_attention_norm": "self_attention_norm",
        "source_query": "cross_attention.query",
        "source_key_value": "cross_attention.key_value",
        "source_output": "cross_attention.output_projection",
        "cross_attention_norm": "cross_attention_norm",
        "expand": "feed_forward.expand",
        "contract": "feed_forward.contract",
        "feed_forward_norm": "feed_forward_norm",
    }
    for side in ("encoder", "decoder"):
        norm = getattr(model, side).output_normalization
        weights |= {
            f"{side}.last_norm.{kind}": getattr(norm, kind).numpy() for kind in ("gamma", "beta")
        }
        for number, block in enumerate(getattr(model, side).blocks):
            for name, path in layers.items():
                layer: Any = block
                for part in path.split("."):
                    layer = getattr(layer, part, None)
                if layer is not None:
                    kinds = ("gamma", "beta") if name.endswith("norm") else ("kernel", "bias")
                    for kind in kinds:
                        weights[f"{side}.{number}.{name}.{kind}"] = getattr(layer, kind).numpy()
    np.savez(folder / "weights.npz", **weights)
    block = model.encoder.blocks[0]
    sizes = {
        "vocab_size": model.vocab_size,
        "width": model.embedding_width,
        "num_layers": len(model.encoder.blocks),
        "num_heads": block.self_attention.num_heads,
        "intermediate_size": block.feed_forward.intermediate_size,
        "extra_length": model.extra_decode_length,
    }
    (folder / "config.json").write_text(json.dumps(sizes))


def start_peer(name: str, folder: pathlib.Path, batch_size: int) -> Callable[[], Any]:
    """Starts a peer and returns what runs a round."""
    kind = "decoding-reference" if name == "reference" else "decoding-torch"
    python = peer_environments.find_python(kind)
    command = [python, PEERS, name, folder, "4", str(batch_size)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("PYTHONPATH", None)
    process = subprocess.Popen(
        command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    for line in process.stdout or ():
        if line == "ready\n":
            break
    else:
        raise RuntimeError(f"{name} ended with {process.wait()} before it was ready")

    def run() -> Any:
        assert process.stdin
        assert process.stdout
        process.stdin.write("go\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    return run


def main() -> None:
    """Prints medians, ratios and how many outputs are equal to ours."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model_dir")
    parser.add_argument("sentences")
    parser.add_argument("--pairs")
    parser.add_argument("--train_steps", type=int, default=300)
    parser.add_argument("--limit", type=int, default=2_000)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--extra_length", type=int, default=50)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    peers = "hugging_face,hugging_face_early,hugging_face_bfloat16,reference"
    peers += ",ctranslate2,ctranslate2_int8"
    parser.add_argument("--peers", default=",".join([*OURS, *peers.split(",")]))
    options = parser.parse_args()
    if not os.path.exists(os.path.join(options.model_dir, "params.yaml")):
        train(options.model_dir, options.pairs, options.train_steps)

    # TensorFlow and OpenMP read these when they are loaded, here and in the peers.
    for name in ("NUM_THREADS", "OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"):
        os.environ[name] = str(options.threads)
    from quintain.serving import translator

    ours = translator.Translator.from_model_dir(options.model_dir, alpha=0.0)
    ours._model.extra_decode_length = options.extra_length
    text = pathlib.Path(options.sentences).read_text(encoding="utf-8").splitlines()
    sentences = [line.split("\t")[0] for line in text][: options.limit]
    sources = [[int(i) for i in row] for row in ours._tokenize(sentences, 10_000)]

    def run_ours(precision: str) -> Any:
        start, cpu_start = time.perf_counter(), time.process_time()
        texts = ours.translate(sentences, options.batch_size, precision=precision)
        secs, cpu_secs = time.perf_counter() - start, time.process_time() - cpu_start
        return {"secs": secs, "cpu_secs": cpu_secs, "texts": texts}

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_weights(ours._model, folder, max(map(len, sources)))
        (folder / "sources.json").write_text(json.dumps(sources))
        runs: dict[str, Callable[[], Any]] = {}
        for peer in options.peers.split(","):
            if peer in OURS:
                precision = OURS[peer]
                ours.translate(sentences[:8], precision=precision)
                runs[peer] = lambda precision=precision: run_ours(precision)
            else:
                runs[peer] = start_peer(peer, folder, options.batch_size)
        secs: dict[str, list[float]] = {peer: [] for peer in runs}
        cpu_secs: dict[str, list[float]] = {peer: [] for peer in runs}
        for _ in range(options.rounds):
            for peer, run in runs.items():
                result = run()
                secs[peer].append(result["secs"])
                cpu_secs[peer].append(result["cpu_secs"])
                texts = result.get("texts") or [
                    text.decode()
                    for row in result["outputs"]
                    for text in ours._tokenizer.detokenize([row or [1]]).numpy()
                ]
                if peer == "quintain":
                    expected = texts
                equal = sum(map(str.__eq__, texts, expected)) / len(texts)
                length = statistics.mean(map(len, texts))
                print(
                    f"{peer:22} {result['secs']:7.1f} s  processor {result['cpu_secs']:7.1f} s   "
                    f"equal {100 * equal:5.1f} %   {length:5.1f} characters",
                    flush=True,
                )
    print(f"{len(sentences)} sentences, {sum(map(len, sources))} source tokens")
    for kind, measured in (("time", secs), ("processor", cpu_secs)):
        median = {peer: statistics.median(values) for peer, values in measured.items()}
        for peer, value in median.items():
            ratios = "".join(f"  {value / median[name]:5.2f}" for name in OURS if name in median)
            print(
                f"{kind:9} {peer:22} median {value:7.1f} s   ratio to {' and '.join(OURS)}{ratios}"
            )


if __name__ == "__main__":
    main()
