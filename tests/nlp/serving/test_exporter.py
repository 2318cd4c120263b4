import json
import pathlib

import pytest
import tensorflow as tf

from quintain import errors
from quintain.nlp import translator
from quintain.nlp.serving import exporter, served_model

SENTENCES = ["red house", "green tree", "", "  ", "日本 😀"]


@pytest.fixture(scope="module")
def export(model_dir, tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("exports") / "model")
    return exporter.export_run(model_dir, directory, num_outputs=2, max_source_length=20)


@pytest.fixture(scope="module")
def run(model_dir):
    return translator.Translator.from_model_dir(model_dir)


def test_an_export_translates_as_the_run_does(run, export):
    exported = translator.Translator.load(export)
    expected = run.translate_with_scores(SENTENCES, num_outputs=2)
    found = exported.translate_with_scores(SENTENCES)
    for ours, theirs in zip(found, expected, strict=True):
        assert [way.text for way in ours] == [way.text for way in theirs]
        assert [way.score for way in ours] == pytest.approx([way.score for way in theirs], rel=1e-5)
    assert exported.count_tokens(SENTENCES) == run.count_tokens(SENTENCES)


def test_signatures_take_and_give_text(run, export):
    model = tf.saved_model.load(export)
    expected = run.translate(SENTENCES)
    batch = model.signatures["serving_default"](inputs=tf.constant(SENTENCES))
    assert [text.decode() for text in batch["outputs"].numpy()] == expected
    assert batch["scores"].shape == [len(SENTENCES)]
    single = model.signatures["serve_single"](inputs=tf.constant(SENTENCES[0]))
    assert single["outputs"].numpy().decode() == expected[0]
    best = model.signatures["serve_n_best"](inputs=tf.constant(SENTENCES))
    assert best["outputs"].shape == [len(SENTENCES), 2]
    ids = model.tokenize(tf.constant(SENTENCES[:1])).to_tensor()
    tokens = model.signatures["serve_tokens"](inputs=ids)
    assert model.detokenize(tokens["outputs"][:, 0]).numpy()[0].decode() == expected[0]
    nothing = model.signatures["serving_default"](inputs=tf.constant([], tf.string))
    assert nothing["outputs"].shape == [0]


def test_a_text_that_is_too_long_is_an_error(export):
    serve = tf.saved_model.load(export).signatures["serving_default"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="more than 20 tokens"):
        serve(inputs=tf.constant(["red " * 20]))
    with pytest.raises(errors.DataError, match="expected at most 20"):
        served_model.load(export).check(["red", "red " * 20])


def test_an_export_says_what_it_is(export, model_dir):
    content = json.loads(pathlib.Path(export, exporter.DESCRIPTION_FILE).read_text())
    assert content["kind"] == "translation"
    assert content["checkpoint"] == f"{model_dir}/ckpt-2"
    assert content["decoding"]["num_outputs"] == 2


def test_an_export_searches_as_it_was_exported_to(export):
    exported = translator.Translator.load(export)
    with pytest.raises(errors.ConfigError, match="beam_size: an exported model"):
        exported.translate(["red"], beam_size=3)
    with pytest.raises(errors.ConfigError, match="prefixes: an exported model takes none"):
        exported.translate(["red"], prefixes=["rot"])
    with pytest.raises(errors.ConfigError, match="an export has its weights"):
        translator.Translator.load(export, checkpoint="ckpt-1")


def test_another_checkpoint_gives_other_weights(model_dir, export, tmp_path):
    first = exporter.export_run(model_dir, str(tmp_path / "x"), checkpoint=f"{model_dir}/ckpt-1")
    assert translator.Translator.load(first).translate(SENTENCES) != translator.Translator.load(
        export
    ).translate(SENTENCES)


def test_what_is_there_is_replaced_only_on_request(model_dir, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(errors.ConfigError, match="which exists; give overwrite"):
        exporter.export_run(model_dir, str(tmp_path))
    with pytest.raises(errors.ConfigError, match="which is no export; it is left"):
        exporter.export_run(model_dir, str(tmp_path), overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"beam_sise": 2}, "beam_sise: there is no such decoding option; did you mean 'beam_size'"),
        ({"alpha": -1.0}, "alpha: got -1.0"),
        ({"max_source_length": 0}, "max_source_length: got 0"),
    ],
)
def test_bad_options_leave_nothing(model_dir, tmp_path, options, words):
    with pytest.raises(errors.ConfigError, match=words):
        exporter.export_run(model_dir, str(tmp_path / "model"), **options)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_without_an_export_is_an_error(tmp_path):
    with pytest.raises(errors.CheckpointError, match=r"is no model that `quintain export` wrote"):
        translator.Translator.from_export(str(tmp_path))


def test_a_served_translation_has_its_alternatives(export, run):
    model = served_model.load(export)
    model.warm_up()
    (found,) = model.run(["red house"])
    best, other = run.translate_with_scores(["red house"], num_outputs=2)[0]
    assert found["text"] == best.text
    assert [way["text"] for way in found["alternatives"]] == [other.text]
