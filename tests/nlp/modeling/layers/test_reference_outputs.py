"""Layers give what those of the TensorFlow Model Garden give, for the same weights and inputs."""

import importlib.util
import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.nlp.modeling import layers

_DATA = pathlib.Path(__file__).parent / "testdata"
_PUBLISHED = json.loads((_DATA / "outputs.json").read_text())


def _import_cases():
    spec = importlib.util.spec_from_file_location("cases", _DATA / "cases.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


cases = _import_cases()
_CASES = cases.list_cases(layers)


def name_sources(path):
    """Returns the Model Garden's names of what a weight of ours is made of."""
    *rest, last = path.split("/")
    prefix = "encdec/" if "encdec" in rest else ""
    has_parent = len(rest) > 1 and last != "relative_position_embeddings"
    parent = rest[-1] if has_parent else None
    is_attention = {"self_attention", "encdec"} & set(rest)
    parts = {
        None: [None],
        "query_key_value": ["query", "key", "value"],
        "key_value": ["key", "value"],
        "expand": ["intermediate"],
        "contract": ["output"],
        "output": ["attention_output" if is_attention else "output"],
    }.get(parent, [parent])
    return [last if part is None else f"{prefix}{part}/{last}" for part in parts]


def load(layer):
    """Writes the weights of the cases."""
    for weight in layer.weights:
        sources = name_sources(weight.path)
        shape = list(weight.shape)
        shape[-1:] = [size // len(sources) for size in shape[-1:]]
        parts = [cases.draw(source, *shape) for source in sources]
        weight.assign(np.concatenate(parts, axis=-1) if len(parts) > 1 else parts[0])


def list_tensors(outputs):
    return [part for part in tf.nest.flatten(outputs) if part is not None]


@pytest.mark.parametrize("name", _PUBLISHED)
def test_outputs_are_those_of_the_model_garden(name):
    layer, compute = cases.run(layers, _CASES[name], load)

    outputs = list_tensors(compute(layer))

    assert [[part.dtype.name, part.shape.as_list()] for part in outputs] == [
        published[:2] for published in _PUBLISHED[name]
    ]
    for part, (_, _, numbers) in zip(outputs, _PUBLISHED[name], strict=True):
        np.testing.assert_allclose(cases.fingerprint(part), numbers, rtol=1e-5, atol=2e-5)
    config = layer.get_config()
    assert type(layer).from_config(config).get_config() == config


_COPIED = [
    "encoder-True",
    "decoder-False",
    "regularized decoder",
    "parts-False",
    "reused-1",
    "kernel-exp",
    "queries-2",
    "heads",
    "gated-True",
]


@pytest.mark.parametrize("name", _COPIED)
def test_a_layer_made_from_a_config_computes_the_same_with_the_same_weights(name):
    layer, compute = cases.run(layers, _CASES[name], load)
    copy = type(layer).from_config(layer.get_config())
    compute(copy)

    copy.set_weights(layer.get_weights())

    for ours, theirs in zip(*map(list_tensors, (compute(copy), compute(layer))), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_every_case_has_published_outputs():
    assert list(_CASES) == list(_PUBLISHED)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("encoder-True", "float16"), ("encoder-False", "float32"), ("decoder-True", "float16")],
)
def test_blocks_that_normalise_last_return_float32_under_mixed_precision(name, expected):
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        layer, compute = cases.run(layers, _CASES[name], load)
        (output,) = list_tensors(compute(layer))
    finally:
        keras.mixed_precision.set_global_policy("float32")

    assert output.dtype == expected
    ((_, _, numbers),) = _PUBLISHED[name]
    np.testing.assert_allclose(cases.fingerprint(output), numbers, atol=0.1)


@pytest.mark.parametrize(
    ("output", "numbers"),
    [
        ("logits", [-0.58715576, -0.35044361, -0.00629735]),
        ("predictions", [-3.15952086, -0.29222858, -0.85295971]),
    ],
)
def test_masked_words_are_predicted_as_by_the_model_garden(output, numbers):
    layer = layers.MaskedLM(tf.constant(cases.draw("table", 11, 6)), "relu", output=output)
    layer.build((2, 5, 8))
    layer.dense.kernel.assign(cases.draw("k", 8, 6))
    layer.dense.bias.assign(cases.draw("b", 6))
    layer.layer_norm.gamma.assign(cases.draw("g", 6))
    layer.layer_norm.beta.assign(cases.draw("be", 6))
    layer.bias.assign(cases.draw("ob", 11))

    found = layer(cases.X, np.array([[1, 4], [0, 2]]))

    np.testing.assert_allclose(cases.fingerprint(found), numbers, atol=1e-5)
