import json
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from fastapi import testclient

from quintain import errors
from quintain.cli import main
from quintain.core import model_export
from quintain.serving import app, request_bodies, served_model, signature_model

PLANT = {"kind": "oak", "sizes": [1.0, 2.0], "age": 3}


@pytest.fixture(scope="module")
def keras_file(tmp_path_factory):
    """A model of a text, two numbers and an integer, as a Keras trial leaves it."""
    inputs = {
        "kind": keras.Input([], name="kind", dtype="string"),
        "sizes": keras.Input([2], name="sizes"),
        "age": keras.Input([], name="age", dtype="int32"),
    }
    total = keras.ops.sum(inputs["sizes"], axis=-1) + keras.ops.cast(inputs["age"], "float32")
    model = keras.Model(inputs, {"sum": total, "kind": inputs["kind"]})
    path = tmp_path_factory.mktemp("checkpoint") / "model.keras"
    model.save(path)
    return path


@pytest.fixture(scope="module")
def model(keras_file):
    return signature_model.SignatureModel.load(str(keras_file.parent))


def test_instances_are_answered_in_their_order_by_name(model):
    given = [PLANT, {**PLANT, "age": 4, "kind": {"b64": "/w=="}}]

    assert model.predict(given) == [
        {"kind": "oak", "sum": 6.0},
        {"kind": {"b64": "/w=="}, "sum": 7.0},
    ]
    assert model.describe()["inputs"]["sizes"] == {"dtype": "float32", "shape": [2]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sizes": [1.0]}, r"instance 2: sizes: got \[1.0\] of shape \[1\], expected numbers"),
        ({"sizes": [1.0, "a"]}, r"sizes: got \[1.0, 'a'\], expected numbers .* of shape \[2\]"),
        ({"sizes": [[1.0], 2.0]}, "sizes: got"),
        ({"age": 1.5}, "age: got 1.5, expected an integer"),
        ({"age": 2**40}, "age: got 1099511627776, expected an integer"),
        ({"age": True}, "age: got True"),
        ({"kind": 5}, "kind: got 5, expected a string"),
        ({"kind": {"b64": "?"}}, "kind: got"),
        ({"size": 1}, "size: unknown; the model takes .*Did you mean 'sizes'"),
    ],
)
def test_an_instance_that_does_not_fit_is_told_by_its_field(model, change, words):
    with pytest.raises(errors.DataError, match=words):
        model.check([PLANT, {**PLANT, **change}])


def test_a_missing_field_is_told(model):
    with pytest.raises(errors.DataError, match="instance 1: age: missing; expected an integer"):
        model.check([{"kind": "oak", "sizes": [1, 2]}])
    with pytest.raises(errors.DataError, match="got 'oak', expected an object with"):
        model.check(["oak"])


def test_examples_of_other_shapes_go_apart():
    @tf.function(input_signature=[tf.TensorSpec([None, None], name="inputs")])
    def double(inputs):
        return {"outputs": 2.0 * inputs}

    class Doubling(model_export.export_base.ExportModule):
        def serve(self, inputs):
            return double(inputs)

        def get_inference_signatures(self, function_keys):
            return {key: double.get_concrete_function() for key in function_keys.values()}

    found = signature_model.SignatureModel.from_module(Doubling(None, tf.Module(), lambda x: x))

    assert [one["outputs"] for one in found.predict([[1.0], [1.0, 2.0], [3.0], []])] == [
        [2.0],
        [2.0, 4.0],
        [6.0],
        [],
    ]


def test_a_server_answers_rows_and_columns_and_shows_the_schema(model):
    served = served_model._serve_signature(model, "model", 64)
    with testclient.TestClient(app.build_app(served)) as client:
        rows = client.post("/predict", json={"instances": [PLANT, PLANT]})
        columns = {name: [value] for name, value in PLANT.items()}
        path = "/v1/models/default:predict"
        answer = client.post(path, json={"inputs": columns})
        bad = client.post(path, json={"instances": [{**PLANT, "age": "x"}]})
        uneven = client.post(path, json={"inputs": {**columns, "age": [1, 2]}})
        shown = client.get("/").json()
        again = client.post("/predict", json=shown["example"])

    assert rows.json() == {"predictions": [{"kind": "oak", "sum": 6.0}] * 2}
    assert answer.json() == {"outputs": {"kind": ["oak"], "sum": [6.0]}}
    assert (bad.status_code, "instance 1: age: got 'x'" in bad.json()["detail"]) == (422, True)
    assert uneven.status_code == 422
    assert shown["schema"]["properties"]["age"] == {"type": "integer"}
    assert again.status_code == 200


def test_one_column_has_no_name():
    assert request_bodies.to_rows([1, 2]) == [1, 2]
    assert request_bodies.to_columns([[1], [2]]) == [[1], [2]]


def test_files_of_all_kinds_are_predicted_alike(keras_file, tmp_path, capsys):
    lines = tmp_path / "a.jsonl"
    lines.write_text(json.dumps(PLANT) + "\n\n" + json.dumps({**PLANT, "age": 4}) + "\n")
    table = tmp_path / "a.csv"
    table.write_text("age,kind,sizes.0,sizes.1\n3,oak,1,2\n4,oak,1,2\n")
    arrays = tmp_path / "a.npz"
    np.savez(arrays, kind=["oak"] * 2, sizes=[[1.0, 2.0]] * 2, age=np.array([3, 4], np.int32))

    printed = []
    for path in (lines, table, arrays):
        assert main.run(["predict", f"--model_dir={keras_file}", f"--input={path}"]) == 0
        printed.append(capsys.readouterr().out)

    assert [json.loads(line)["sum"] for line in printed[0].splitlines()] == [6.0, 7.0]
    assert printed[1:] == printed[:1] * 2


def test_a_bad_line_ends_after_those_before_it_unless_it_is_skipped(keras_file, tmp_path, capsys):
    path = tmp_path / "a.jsonl"
    path.write_text(f"{json.dumps(PLANT)}\nnonsense\n{json.dumps(PLANT)}\n")
    command = ["predict", f"--model_dir={keras_file}", f"--input={path}"]

    stopped = main.run(command), *capsys.readouterr()
    skipped = main.run([*command, "--skip_bad"]), *capsys.readouterr()

    assert (stopped[0], stopped[1].count("\n")) == (2, 1)
    assert "line 2: got 'nonsense', expected JSON" in stopped[2]
    assert (skipped[0], skipped[1].count("\n"), skipped[1].count("error")) == (0, 3, 1)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("age,kind,size", "the column 'size' is no input.*Did you mean 'sizes'"),
        ("age,kind", "there is no column for sizes"),
        ("age,kind,sizes.1", "have the numbers"),
    ],
)
def test_columns_that_do_not_fit_are_told(keras_file, tmp_path, capsys, header, words):
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\n")

    assert main.run(["predict", f"--model_dir={keras_file}", f"--input={path}"]) == 2
    assert re.search(words, capsys.readouterr().err)


def test_options_of_a_task_are_those_of_its_method(capsys, tmp_path, keras_file):
    command = ["export", f"--model_dir={keras_file}", f"--output={tmp_path}/x"]

    assert main.run([*command, "--option", "threshold=0.5"]) == 2
    assert "threshold: " in capsys.readouterr().err
    assert main.run(command) == 0
    assert "serving_default" in capsys.readouterr().out
    found = signature_model.SignatureModel.load(f"{tmp_path}/x")
    assert found.predict([PLANT]) == [{"kind": "oak", "sum": 6.0}]


@pytest.mark.parametrize("shape", [[], [1]])
def test_an_argument_is_a_text_or_json_where_the_model_takes_one_text(tmp_path, shape, capsys):
    text = keras.Input(shape, name="text", dtype="string")
    keras.Model(text, {"text": keras.layers.Identity()(text)}).save(tmp_path / "model.keras")
    arguments = ["good film", '"good \\u0066ilm"', "5", "{", '{"b64": "Z29vZCBmaWxt"}']

    assert main.run(["predict", f"--model_dir={tmp_path}", "--", *arguments]) == 0

    answers = [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()]
    expected = ["good film", "good film", "5", "{", "good film"]
    assert answers == [[text] if shape else text for text in expected]
