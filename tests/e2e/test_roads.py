"""The whole roads of the examples at a tiny size: from text to an answer over HTTP."""

import json
import os
import pathlib
import random
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
LAYERS = "{num_layers: 1, num_attention_heads: 2, intermediate_size: 64}"
TRANSLATION = {
    "STEPS": "30",
    "NUM_AVERAGED": "2",
    "BEAM_SIZE": "2",
    "NUM_LINES": "3",
    "TRAIN_SET": f"task.model.encoder={LAYERS},task.model.decoder={LAYERS},"
    "task.model.embedding_width=32,task.vocab_size=120,task.train_data.global_batch_size=512,"
    "task.model.decode_max_length=12,trainer.steps_per_loop=10,trainer.checkpoint_interval=10,"
    "trainer.summary_interval=10,trainer.validation_interval=30",
}
SIZES = (
    "task.model.encoder.bert.hidden_size=32,task.model.encoder.bert.num_layers=1,"
    "task.model.encoder.bert.num_attention_heads=2,task.model.encoder.bert.intermediate_size=32,"
    "task.model.encoder.bert.vocab_size=200,trainer.validation_interval=1000,"
    "trainer.optimizer_config.warmup.polynomial.warmup_steps=5"
)
BERT = {
    "VOCAB_SIZE": "200",
    "PRETRAIN_STEPS": "10",
    "FINETUNE_STEPS": "60",
    "NUM_LINES": "10",
    "PRETRAIN_SET": f"{SIZES},task.train_data.global_batch_size=8,"
    "task.validation_data.global_batch_size=8",
    "FINETUNE_SET": f"{SIZES},task.train_data.seq_length=32,task.validation_data.seq_length=32,"
    "trainer.optimizer_config.learning_rate.polynomial.initial_learning_rate=0.005",
}
WORDS = {
    "de": "der Drucker ist nicht bereit und die Datei wurde nicht gefunden bitte warten Bahnhof wo",
    "fr": "le fichier est introuvable ou vous devez attendre une imprimante avec la page où gare",
}


def walk(name, *arguments, settings):
    """Runs an example, and returns what it wrote to standard output."""
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        [str(EXAMPLES / name), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **settings, "PATH": path, "PORT": "0"},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def read_rows(path):
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]


def read_answers(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Sentences of two languages, of ten words each."""
    directory = tmp_path_factory.mktemp("corpus")
    (directory / "text").mkdir()
    chance = random.Random(0)
    texts = {
        language: [" ".join(chance.choices(words.split(), k=10)) for _ in range(150)]
        for language, words in WORDS.items()
    }
    for language, lines in texts.items():
        (directory / "text" / f"{language}.txt").write_text("\n".join(lines), encoding="utf-8")
    for part, places in {"train": (0, 100), "valid": (100, 120), "test": (120, 150)}.items():
        rows = [f"{text}\t{name}\n" for name in texts for text in texts[name][slice(*places)]]
        chance.shuffle(rows)
        table = "text\tlanguage\n" + "".join(rows)
        (directory / f"{part}.tsv").write_text(table, encoding="utf-8")
    return directory


@pytest.mark.slow
@pytest.mark.e2e
def test_the_road_of_translation_leads_from_a_corpus_to_an_answer(tmp_path):
    output = walk("translation_road.sh", tmp_path, settings=TRANSLATION)

    assert "Averaged 2 checkpoints" in output
    assert (tmp_path / "run" / "averaged" / "translations" / "step-30.tsv").exists()
    sources = [row[0] for row in read_rows(tmp_path / "test.tsv")[:3]]
    translations = (tmp_path / "translation.txt").read_text(encoding="utf-8").splitlines()
    assert [row[0] for row in read_rows(tmp_path / "source.txt")] == sources
    assert len(translations) == 3
    answer, health = read_answers(tmp_path / "answer.txt")
    assert [set(one) for one in answer["translations"]] == [{"text", "score"}] * 2
    assert health == {"status": "ok", "waiting": 0}


@pytest.mark.slow
@pytest.mark.e2e
def test_the_road_of_translation_takes_files(tmp_path):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("red house\trotes Haus\ngreen tree\tgrüner Baum\n" * 20, encoding="utf-8")
    settings = {**TRANSLATION, "TRAIN_SET": TRANSLATION["TRAIN_SET"].replace("=120", "=40")}

    walk("translation_road.sh", tmp_path / "a b", *[pairs] * 3, settings=settings)

    lines = (tmp_path / "a b" / "source.txt").read_text(encoding="utf-8").splitlines()
    assert lines == ["red house", "green tree", "red house"]


@pytest.mark.slow
@pytest.mark.e2e
def test_the_road_of_bert_leads_from_text_to_an_answer(corpus, tmp_path):
    walk("bert_road.sh", tmp_path, corpus, settings=BERT)

    evaluations = (tmp_path / "classifier" / "evaluations.jsonl").read_text().splitlines()
    assert json.loads(evaluations[-1])["metrics"]["f1"] > 0.9
    expected = [row[1] for row in read_rows(tmp_path / "test.tsv")]
    predictions = read_rows(tmp_path / "predictions.tsv")
    assert [row[0] for row in predictions] == expected
    answer, health = read_answers(tmp_path / "answer.txt")
    assert [set(one["probabilities"]) for one in answer["predictions"]] == [{"de", "fr"}] * 2
    assert health["status"] == "ok"
