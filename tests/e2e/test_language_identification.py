"""The road of examples/language_identification at a tiny size, from catalogues of our own."""

import importlib.util
import json
import os
import pathlib
import random
import struct
import subprocess
import sys

import pytest

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "language_identification"
WORDS = {
    "de": "der Drucker ist nicht bereit und die Datei wurde nicht gefunden bitte warten",
    "fr": "le fichier est introuvable ou vous devez attendre une imprimante avec la page",
    "uk": "файл не знайдено зачекайте доки принтер буде готовий натисніть кнопку",
}
ENGLISH = "the file was not found please wait until this printer is ready for another page"
SIZES = (
    "task.model.encoder.bert.hidden_size=32,task.model.encoder.bert.num_layers=1,"
    "task.model.encoder.bert.num_attention_heads=2,task.model.encoder.bert.intermediate_size=32,"
    "task.model.encoder.bert.vocab_size=300,trainer.validation_interval=1000,"
    "trainer.optimizer_config.warmup.polynomial.warmup_steps=5"
)


def write_catalogue(path, messages):
    """Writes messages as GNU gettext keeps them, the header of the catalogue first."""
    pairs = {"": "Content-Type: text/plain; charset=UTF-8\n", **messages}
    data = [(key.encode(), pairs[key].encode()) for key in sorted(pairs)]
    start = 28 + 16 * len(data)
    tables, texts = [[], []], b""
    for side in (0, 1):
        for pair in data:
            tables[side].append((len(pair[side]), start + len(texts)))
            texts += pair[side] + b"\0"
    head = struct.pack("<7I", 0x950412DE, 0, len(data), 28, 28 + 8 * len(data), 0, 0)
    rows = b"".join(struct.pack("<2I", *row) for table in tables for row in table)
    path.parent.mkdir(parents=True)
    path.write_bytes(head + rows + texts)


@pytest.fixture(scope="module")
def locale_dir(tmp_path_factory):
    directory = tmp_path_factory.mktemp("locale")
    chance = random.Random(0)
    originals = [" ".join(chance.choices(ENGLISH.split(), k=8)) for _ in range(150)]
    for language, words in WORDS.items():
        messages = {
            original: " ".join(chance.choices(words.split(), k=8)) for original in originals
        }
        write_catalogue(directory / language / "LC_MESSAGES" / "a.mo", messages)
    return directory


@pytest.fixture(scope="module")
def make_corpus():
    spec = importlib.util.spec_from_file_location("make_corpus", EXAMPLE / "make_corpus.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_corpus_is_read_from_catalogues(make_corpus, locale_dir):
    texts = make_corpus.collect(locale_dir, None)

    assert set(texts) == {"de", "fr", "uk", "en"}
    assert all(set(text.split()) <= set(WORDS["fr"].split()) for text in texts["fr"])
    assert set(texts["de"].values()) == {"train", "valid", "test"}
    assert make_corpus.choose_languages(texts, None, 100) == ["de", "en", "fr", "uk"]
    assert make_corpus.choose_part("The File") == make_corpus.choose_part("the file")


def test_of_variants_of_a_language_the_larger_one_is_taken(make_corpus):
    texts = {"pt": dict.fromkeys("ab"), "pt_BR": dict.fromkeys("abc"), "de": dict.fromkeys("a")}

    assert make_corpus.choose_languages(texts, None, 2) == ["pt_BR"]


@pytest.mark.long("`test_roads.py` walks such a road")
@pytest.mark.slow
@pytest.mark.e2e
def test_the_whole_road_leads_from_text_to_scores(locale_dir, tmp_path):
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    settings = {
        "PATH": path,
        "VOCAB_SIZE": "300",
        "NUM_LINES": "10",
        "PORT": "0",
        "PRETRAIN_STEPS": "20",
        "FINETUNE_STEPS": "120",
        "PRETRAIN_SET": f"{SIZES},task.train_data.global_batch_size=8,"
        "task.validation_data.global_batch_size=8",
        "FINETUNE_SET": f"{SIZES},task.train_data.seq_length=32,task.validation_data.seq_length=32,"
        "trainer.optimizer_config.learning_rate.polynomial.initial_learning_rate=0.005",
    }

    result = subprocess.run(
        [str(EXAMPLE / "run.sh"), str(tmp_path), "--locale-dir", str(locale_dir), "--min-texts=50"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **settings},
    )

    assert result.returncode == 0, result.stdout + result.stderr
    evaluations = (tmp_path / "classifier" / "evaluations.jsonl").read_text().splitlines()
    metrics = json.loads(evaluations[-1])["metrics"]
    assert metrics["cls_accuracy"] > 0.9
    assert metrics["f1"] > 0.9
    assert (tmp_path / "classifier" / "vocabulary.model").exists()
    texts, predictions = (
        [line.split("\t") for line in (tmp_path / name).read_text(encoding="utf-8").splitlines()]
        for name in ("test.tsv", "predictions.tsv")
    )
    assert len(texts) == 10
    labels = [label for _, label in texts]
    assert sum(row[0] == label for row, label in zip(predictions, labels, strict=True)) >= 8
    answer, health = map(json.loads, (tmp_path / "answer.txt").read_text().splitlines())
    assert [set(one["probabilities"]) for one in answer["predictions"]] == [set(WORDS) | {"en"}] * 2
    assert health["status"] == "ok"
