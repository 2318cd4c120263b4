import json
import pathlib
import shutil

import pytest
import tensorflow as tf

from quintain import errors
from quintain.kernels import modes
from quintain.nlp.modeling.models import seq2seq_transformer
from quintain.serving import exporter, served_model, translator

SENTENCES = ["red house", "green tree", "", "  ", "日本 😀"]


BLANKS = [
    "",
    " ",
    "\t",
    "\x85",
    "\x1c\x1f",
    "\u2028\u2029",
    "\u3000\xa0",
    "\ufeff",
    "\u200b",
    "\x0b \x0c",
]
ODD = [
    "\0",
    "red\0",
    "\0red",
    "a\u2028b",
    "red\x85house",
    "\u202ered",
    "👩\u200d👧",
    "e\u0301",
    "\x1b[31mred",
]


@pytest.fixture(scope="module")
def export(model_dir, tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("exports") / "model")
    return exporter.export_run(model_dir, directory, num_outputs=2, max_source_length=20)


@pytest.fixture(scope="module")
def run(model_dir):
    return translator.Translator.from_model_dir(model_dir)


@pytest.mark.slow
def test_an_export_translates_as_the_run_does(run, export):
    exported = translator.Translator.load(export)
    expected = run.translate_with_scores(SENTENCES, num_outputs=2)
    found = exported.translate_with_scores(SENTENCES)
    for ours, theirs in zip(found, expected, strict=True):
        assert [way.text for way in ours] == [way.text for way in theirs]
        assert [way.score for way in ours] == pytest.approx([way.score for way in theirs], rel=1e-5)
    assert exported.count_tokens(SENTENCES) == run.count_tokens(SENTENCES)


@pytest.mark.long("Exports of other options; one is written and asked in every run")
@pytest.mark.slow
def test_an_export_of_rounded_weights_is_smaller_and_needs_no_native_code(model_dir, run, tmp_path):
    directory = str(tmp_path / "int8")
    exporter.export_run(model_dir, directory, num_outputs=2, precision="int8")
    by_operations = translator.Translator(
        run._model, run._tokenizer, kernels=modes.KernelMode.TENSORFLOW
    )
    expected = by_operations.translate_with_scores(SENTENCES, num_outputs=2, precision="int8")
    assert expected != by_operations.translate_with_scores(SENTENCES, num_outputs=2)

    exported = translator.Translator.load(directory)

    assert exported.choose_options().precision == "int8"
    found = exported.translate_with_scores(SENTENCES)
    for ours, theirs in zip(found, expected, strict=True):
        assert [way.text for way in ours] == [way.text for way in theirs]
        assert [way.score for way in ours] == pytest.approx([way.score for way in theirs], rel=1e-5)
    held = tf.train.load_checkpoint(str(pathlib.Path(directory) / "variables" / "variables"))
    types, shapes = held.get_variable_to_dtype_map(), held.get_variable_to_shape_map()
    assert tf.int8 in types.values()
    matrices = [shapes[name] for name in shapes if types[name] == tf.float32]
    assert all(len(shape) < 2 or 1 in shape for shape in matrices)


@pytest.mark.slow
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


@pytest.mark.long("tests/cli/test_bad_text.py has odd texts in every run")
@pytest.mark.slow
def test_odd_texts_are_the_same_to_a_run_an_export_and_plain_tensorflow(run, export):
    texts = [*BLANKS, *ODD]
    expected = run.translate_with_scores(texts, num_outputs=2)
    assert [one[0] for one in expected[: len(BLANKS)]] == [translator.Translation("", 0.0)] * 10

    ways = translator.Translator.load(export).translate_with_scores(texts)
    found = tf.saved_model.load(export).signatures["serving_default"](inputs=tf.constant(texts))

    best = [one[0].text for one in expected]
    assert [one[0].text for one in ways] == best
    assert [text.decode() for text in found["outputs"].numpy()] == best
    scores = [one[0].score for one in expected]
    assert [one[0].score for one in ways] == pytest.approx(scores, rel=1e-5)
    assert found["scores"].numpy().tolist() == pytest.approx(scores, rel=1e-5)


@pytest.mark.slow
def test_a_text_that_is_too_long_is_an_error(export):
    serve = tf.saved_model.load(export).signatures["serving_default"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="more than 20 tokens"):
        serve(inputs=tf.constant(["red " * 20]))
    with pytest.raises(errors.DataError, match="expected at most 20"):
        served_model.load(export).check(["red", "red " * 20])


@pytest.mark.slow
def test_an_export_says_what_it_is(export, model_dir):
    content = json.loads(pathlib.Path(export, exporter.DESCRIPTION_FILE).read_text())
    assert content["kind"] == "translation"
    assert content["checkpoint"] == f"{model_dir}/ckpt-2"
    assert content["decoding"]["num_outputs"] == 2


@pytest.mark.long("Exports of other options; one is written and asked in every run")
@pytest.mark.slow
def test_an_export_searches_as_it_was_exported_to(export):
    exported = translator.Translator.load(export)
    with pytest.raises(errors.ConfigError, match="beam_size: an exported model"):
        exported.translate(["red"], beam_size=3)
    with pytest.raises(errors.ConfigError, match="prefixes: an exported model takes none"):
        exported.translate(["red"], prefixes=["rot"])
    with pytest.raises(errors.ConfigError, match="an export has its weights"):
        translator.Translator.load(export, checkpoint="ckpt-1")


@pytest.mark.long("Exports of other options; one is written and asked in every run")
@pytest.mark.slow
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
        ({"beam_sise": 2}, "beam_sise: there is no such decoding option. Did you mean 'beam_size'"),
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


@pytest.mark.slow
def test_a_served_translation_has_its_alternatives(export, run):
    model = served_model.load(export)
    model.warm_up()
    (found,) = model.run(["red house"])
    best, other = run.translate_with_scores(["red house"], num_outputs=2)[0]
    assert found["text"] == best.text
    assert [way["text"] for way in found["alternatives"]] == [other.text]


def damage(export, tmp_path, name, content):
    directory = pathlib.Path(shutil.copytree(export, tmp_path / "damaged"))
    path = directory / name
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    return str(directory)


@pytest.mark.long(
    "Further cases of a test of which some run every time",
    but=["saved_model.pb-None", "variables/variables.index-"],
)
@pytest.mark.slow
@pytest.mark.parametrize("content", [None, b"", b"\x00\x01garbage"])
@pytest.mark.parametrize(
    "name",
    ["saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"],
)
def test_a_damaged_model_is_an_error(export, tmp_path, name, content):
    directory = damage(export, tmp_path, name, content)

    with pytest.raises(errors.CheckpointError, match="the SavedModel is damaged") as caught:
        served_model.load(directory)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("content", [None, b"", b"[]", b'{"kind": "translation"}', b"\xff"])
def test_a_damaged_description_is_an_error(export, tmp_path, content):
    directory = damage(export, tmp_path, exporter.DESCRIPTION_FILE, content)

    with pytest.raises(errors.CheckpointError, match=r"quintain\.json is missing or damaged"):
        translator.Translator.load(directory)


@pytest.mark.slow
def test_a_damaged_export_is_replaced_as_a_whole_but_for_what_somebody_has_put_there(
    model_dir, export, tmp_path, monkeypatch
):
    directory = pathlib.Path(shutil.copytree(export, tmp_path / "a [1] ü"))
    (directory / "saved_model.pb").unlink()
    (directory / "notes.txt").write_text("mine")
    (directory / "variables" / "more.txt").write_text("mine")
    traced = []
    decode = seq2seq_transformer.Seq2SeqTransformer.decode
    monkeypatch.setattr(
        seq2seq_transformer.Seq2SeqTransformer,
        "decode",
        lambda *args, **kwargs: traced.append(args) or decode(*args, **kwargs),
    )

    exporter.export_run(model_dir, str(directory), overwrite=True, max_source_length=7)

    assert len(traced) == 1  # It takes most of the time, whatever the number of signatures.
    assert exporter.Description.read(str(directory)).max_source_length == 7
    assert (directory / "notes.txt").read_text() == "mine"
    assert (directory / "variables" / "more.txt").read_text() == "mine"
    assert translator.Translator.load(str(directory)).translate(["red"]) != []
    assert [path.name for path in tmp_path.iterdir()] == ["a [1] ü"]


def test_a_model_of_others_is_left_as_it_is(model_dir, tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"theirs")

    with pytest.raises(errors.ConfigError, match="which is no export"):
        exporter.export_run(model_dir, str(tmp_path), overwrite=True)
    assert (tmp_path / "saved_model.pb").read_bytes() == b"theirs"


@pytest.mark.long("Exports of other options; one is written and asked in every run")
@pytest.mark.slow
def test_the_limit_of_an_export_holds(export, model_dir):
    exported = translator.Translator.load(export)
    with pytest.raises(translator.SourceTooLongError, match="expected at most 20"):
        exported.translate(["red " * 20])
    with pytest.raises(errors.ConfigError, match="max_source_length: got 21, but the model was"):
        exported.translate(["red"], max_source_length=21)
    with pytest.raises(errors.ConfigError, match="max_source_length: got 21, but the model was"):
        served_model.load(export, max_source_length=21)
    long = ["red " * 1100]
    assert len(translator.Translator.load(model_dir).translate(long, max_source_length=5000)) == 1


@pytest.mark.slow
def test_an_export_takes_no_seed(export):
    with pytest.raises(errors.ConfigError, match="seed: an exported model draws as it likes"):
        translator.Translator.load(export).translate(["red"], seed=3)


def test_half_a_surrogate_pair_is_no_text(run):
    with pytest.raises(errors.DataError, match="text 2: is not valid Unicode"):
        run.translate(["red", "\udcff"])


@pytest.mark.slow
def test_a_score_that_json_lacks_is_none(export, monkeypatch):
    lost = [[translator.Translation("", float("-inf"))]]
    model = served_model.load(export)
    monkeypatch.setattr(
        translator.Translator, "translate_with_scores", lambda *args, **kwargs: lost
    )
    assert model.run(["red"]) == [{"text": "", "score": None}]
