import json
import pathlib

import pytest
import tensorflow as tf

from quintain.serving import classifier, translator

TRANSLATION = ["serve_n_best", "serve_single", "serve_tokens", "serving_default"]


@pytest.mark.long("The road of tests/e2e exports and translates in every run")
@pytest.mark.slow
def test_an_export_is_described_and_translates(quintain, model_dir, tmp_path):
    target = tmp_path / "new" / "export"

    code, out, err = quintain(
        "export", f"--model-dir={model_dir}", f"--output={target}", "--json", "--num-outputs=2",
        "--max-source-length=30",
    )  # fmt: skip

    assert (code, err) == (0, "")
    described = json.loads(out)
    assert described["kind"] == "translation"
    assert described["checkpoint"] == f"{model_dir}/ckpt-2"
    assert described["signatures"] == TRANSLATION
    files = [path for path in target.rglob("*") if path.is_file()]
    assert described["size"] == sum(path.stat().st_size for path in files)
    model = translator.Translator.load(str(target))
    assert model.choose_options().num_outputs == 2
    assert model.choose_max_source_length() == 30
    assert len(model.translate(["red house", "tree"])) == 2


@pytest.mark.slow
def test_an_export_of_a_classifier_is_loaded_by_plain_tensorflow(
    quintain, classifier_dir, tmp_path
):
    target = tmp_path / "export"

    code, out, _ = quintain("export", f"--model-dir={classifier_dir}", f"--output={target}")

    assert code == 0
    assert f"Exported {classifier_dir}/ckpt-1 to {target} (" in out
    assert out.endswith("Signatures: serve_single, serving_default\n")
    serve = tf.saved_model.load(str(target)).signatures["serving_default"]
    labels = serve(inputs=tf.constant(["ein Haus"]))["labels"].numpy()
    expected = classifier.Classifier.load(classifier_dir).classify(["ein Haus"])[0].label
    assert [label.decode() for label in labels] == [expected]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model-dir=nowhere", "--output=x"], "holds no usable checkpoint"),
        (["--output=x"], "--model-dir, --model: expected one of them"),
        (["--model-dir={run}", "--output={taken}"], "which exists; give overwrite"),
        (["--model-dir={run}", "--output={taken}", "--overwrite"], "which is no export"),
        (["--model-dir={run}", "--output=x", "--checkpoint=ckpt-9"], "ckpt-9"),
        (
            ["--model-dir={run}", "--output=x", "--num-outputs=9", "--beam-size=2"],
            "num_outputs: got 9",
        ),
        (
            ["--model-dir={classifier}", "--output=x", "--beam-size=3"],
            "takes no options",
        ),
        (["--model-dir={classifier}", "--output=x", "--checkpoint={run}/ckpt-1"], "ckpt-1"),
    ],
)
def test_mistakes_are_named_and_leave_nothing(
    quintain, model_dir, classifier_dir, tmp_path, monkeypatch, arguments, words
):
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "notes.txt").write_text("mine")
    monkeypatch.chdir(tmp_path)
    places = {"run": model_dir, "classifier": classifier_dir, "taken": taken}

    code, out, err = quintain("export", *(text.format(**places) for text in arguments))

    assert (code, out) == (2, "")
    assert words in err
    assert "Traceback" not in err
    assert sorted(path.name for path in pathlib.Path().rglob("*")) == ["notes.txt", "taken"]
