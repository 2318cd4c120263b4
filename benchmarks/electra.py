"""Fine-tunes the discriminator of `electra/local` beside random weights, at equal steps.

python benchmarks/electra.py MODEL_DIR [--seeds=3] [--lines=64] [--steps=60]

MODEL_DIR is a finished run of `quintain train --experiment=electra/local`. Both learn to tell
English from German from the same labelled lines of the bundled corpus, others for each seed; scored
are all lines of the validation split, which no training has seen, by their first 16 pieces. Printed
are the accuracies, and the mean gain with its 95 % interval (Student's t over the seeds).
"""

import argparse
import json
import pathlib
import statistics
import tempfile

import yaml
from scipy import stats

from quintain.cli import main
from quintain.nlp.data.corpora import bundled_corpora


def write_lines(path: pathlib.Path, split: str, places: slice = slice(None)) -> None:
    """Writes English and German lines of a split with their labels."""
    pairs = bundled_corpora.get_pairs(f"numbers_and_dates/{split}")[places]
    rows = [f"{english}\ten\n{german}\tde\n" for english, german in pairs]
    path.write_text("text\tlabel\n" + "".join(rows))


def fine_tune(options: argparse.Namespace, seed: int, checkpoint: str, directory: str) -> float:
    """Returns the accuracy in percent after fine-tuning from a checkpoint, or from nothing."""
    pretraining = yaml.safe_load((options.model_dir / "params.yaml").read_text())
    train, validation = (
        pathlib.Path(directory) / f"{name}.tsv" for name in ("train", "validation")
    )
    half = options.lines // 2
    write_lines(train, "train", slice(seed * half, (seed + 1) * half))
    write_lines(validation, "validation")
    data = {
        "text_fields": ["text"],
        "tokenization": "SentencePiece",
        "vocab_file": str(options.model_dir / "vocabulary.model"),
        "seq_length": 16,
        "global_batch_size": 32,
    }
    schedule = {"initial_learning_rate": 5e-4, "decay_steps": options.steps}
    override = {
        "task": {
            "init_checkpoint": checkpoint,
            "label_names": ["de", "en"],
            "model": {"encoder": pretraining["task"]["model"]["discriminator_encoder"]},
            "train_data": {**data, "input_path": str(train)},
            "validation_data": {**data, "input_path": str(validation)},
        },
        "trainer": {
            "train_steps": options.steps,
            "steps_per_loop": options.steps,
            "summary_interval": options.steps,
            "checkpoint_interval": options.steps,
            "validation_interval": options.steps,
            "optimizer_config": {
                "learning_rate": {"polynomial": schedule},
                "warmup": {"polynomial": {"warmup_steps": options.steps // 10}},
            },
        },
        "runtime": {"distribution_strategy": "one_device", "seed": seed},
    }
    config = pathlib.Path(directory) / "config.yaml"
    config.write_text(yaml.safe_dump(override))
    experiment = "--experiment=bert/sentence_prediction_text"
    run = pathlib.Path(directory) / "run"
    if main.run(["train", experiment, f"--config-file={config}", f"--model-dir={run}", "--quiet"]):
        raise SystemExit("Fine-tuning failed.")
    metrics = json.loads((run / "evaluations.jsonl").read_text().splitlines()[-1])["metrics"]
    return 100 * metrics["cls_accuracy"]


def compare() -> None:
    """Fine-tunes from both starts for each seed, and prints what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model_dir", type=pathlib.Path, help="a run of electra/local")
    parser.add_argument("--seeds", type=int, default=3, help="at least 2")
    parser.add_argument("--lines", type=int, default=64, help="labelled lines to learn from")
    parser.add_argument("--steps", type=int, default=60, help="updates")
    options = parser.parse_args()
    gains = []
    for seed in range(options.seeds):
        scores = []
        for checkpoint in ("", str(options.model_dir)):
            with tempfile.TemporaryDirectory() as directory:
                scores.append(fine_tune(options, seed, checkpoint, directory))
        gains.append(scores[1] - scores[0])
        print(f"seed {seed}: random {scores[0]:.1f} %, pretrained {scores[1]:.1f} %", flush=True)
    width = stats.sem(gains) * stats.t.ppf(0.975, options.seeds - 1)
    print(f"gain {statistics.mean(gains):.1f} points, 95 % interval +- {width:.1f}")


if __name__ == "__main__":
    compare()
