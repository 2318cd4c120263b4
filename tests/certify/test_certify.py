"""Faults of ports are found at their first place, and named."""

import contextlib
import json
import pathlib

import numpy as np
import pytest

from quintain import errors
from quintain.certify import certify, lanes, stages, variable_map

pytestmark = pytest.mark.slow

PROGRAMS = pathlib.Path(__file__).parent / "programs"
RANDOM = np.random.RandomState(0)
LABELS = RANDOM.randint(0, 3, 64)
ROWS = RANDOM.normal(size=(64, 6)).astype("float32")
IMAGES = RANDOM.normal(size=(64, 8, 8, 2)).astype("float32")
TOKENS = RANDOM.randint(1, 20, (64, 7)) * (np.arange(7) < RANDOM.randint(3, 8, (64, 1)))
OPTIONS = certify.Options(seeds=2, steps=4)


@pytest.fixture(scope="module")
def compare(tmp_path_factory):
    """Compares two functions, in processes that are started once."""
    with contextlib.ExitStack() as stack:
        opened = {}

        def get(role, name):
            source = lanes.parse_source(str(PROGRAMS / name), role)
            kind = (role, source.is_graph)
            if kind not in opened:
                opened[kind] = stack.enter_context(lanes.open_lane(source))
            opened[kind].load(source)
            return opened[kind]

        def run(old, new, x, y=LABELS, options=OPTIONS):
            batches = [
                stages.slice_batch((x, y, None), rows) for rows in (slice(32), slice(32, None))
            ]
            return certify.compare(get("OLD", old), get("NEW", new), batches, options)

        yield run


@pytest.mark.parametrize(
    ("name", "x", "stage", "cause"),
    [
        ("norm_epsilon", ROWS, "INFERENCE", "epsilon of normalisation: layer 'batch_norm"),
        ("padding", IMAGES, "INFERENCE", "padding: layer 'conv2d"),
        ("mask", TOKENS, "INFERENCE", "mask: layer 'embedding"),
        ("reduction", ROWS, "LOSS", "reduction of the loss: OLD sums over the examples"),
        ("smoothing", ROWS, "LOSS", "label smoothing: 0.1 in OLD, 0 in NEW"),
        ("l2", ROWS, "LOSS", "L2 as loss or as decay: 0.01 times the sum of squares"),
        ("adam_epsilon", ROWS, "UPDATES", "epsilon of Adam: 1e-07 in NEW; with 0.001 it agrees"),
        (
            "momentum",
            ROWS,
            "UPDATES",
            "momentum of normalisation: 0.9 in OLD, 0.1 in NEW, the conv",
        ),
        ("schedule", ROWS, "UPDATES", "learning-rate schedule off by one"),
        ("dropout", ROWS, "DROPOUT", "dropout scaling: rate 0.2 in OLD, 0.8 in NEW; one takes"),
        ("untold_norm", ROWS, "LOSS", "updates of moving averages and dropout: `call` in NEW"),
        ("untold_dropout", ROWS, "DROPOUT", "updates of moving averages and dropout: `call` in"),
        ("initialiser", ROWS, "FRESH", "default initialiser: truncated_normal (deviation 0.0"),
    ],
)
def test_a_fault_is_named(compare, name, x, stage, cause):
    labels = np.eye(3, dtype="float32")[LABELS] if name == "smoothing" else LABELS

    found = compare(f"older_keras.py:{name}", f"newer_keras.py:{name}", x, labels)

    assert found.cause.startswith(cause), found.verdict
    assert found.difference.stage.name == stage
    assert not found.results[-1].is_equal
    assert all(one.is_equal for one in found.results[:-1])


def test_equal_models_get_a_certificate(compare):
    found = compare("older_keras.py:dropout", "newer_keras.py:equal", ROWS)

    assert found.is_equivalent
    assert found.verdict.startswith("equivalent within 1e-06 for 10 updates; no difference over 2")
    assert len(found.results) == 8


def test_the_order_of_gates_is_found_for_the_map(compare, tmp_path):
    found = compare("older_keras.py:gates", "newer_keras.py:gates", TOKENS)

    assert found.results[0].is_equal
    assert "in the order ifoc in OLD" in found.notes[0]
    assert found.map[1].gates == (0, 1, 3, 2)

    path = tmp_path / "map.json"
    rows = json.loads(variable_map.to_json(found.map))
    path.write_text(json.dumps([{"new": row["new"], "old": row["old"]} for row in rows]))
    options = certify.Options(seeds=2, steps=4, map=path)
    wrong = compare("older_keras.py:gates", "newer_keras.py:gates", TOKENS, options=options)

    assert wrong.cause.startswith("gates of sequential")
    assert wrong.difference.place.startswith("layer 'lstm")


def test_a_gru_of_another_kind_is_named(compare):
    with pytest.raises(errors.ConfigError, match="GRU reset_after, which is False in OLD and True"):
        compare("older_keras.py:gru", "newer_keras.py:gru", TOKENS)


def test_moving_averages_that_a_graph_does_not_update_are_named(compare):
    found = compare("older_graphs.py:batch_norm", "newer_keras.py:batch_norm", ROWS)

    assert found.cause == "updates of moving averages are not run in OLD"


@pytest.mark.parametrize(
    ("old", "new", "stage", "cause"),
    [
        ("decayed_momentum", "decayed_momentum", "UPDATES", "momentum under a decaying rate: the"),
        ("kept_share", "small", "INFERENCE", "dropout scaling: OLD has 0.8 times the values of"),
    ],
)
def test_a_fault_of_a_graph_is_named(compare, old, new, stage, cause):
    found = compare(f"older_graphs.py:{old}", f"newer_keras.py:{new}", ROWS)

    assert found.cause.startswith(cause), found.verdict
    assert found.difference.stage.name == stage


def test_variances_by_n_minus_1_are_taken_into_account(compare):
    found = compare("older_keras.py:image_norm", "newer_keras.py:image_norm", IMAGES)

    assert found.is_equivalent, found.verdict
    assert "OLD's moving variances divide by N - 1" in found.notes[0]


def test_a_premade_estimator_sums_losses(compare):
    x = {"size": ROWS[:, :2], "kind": TOKENS[:, 0]}

    found = compare("older_graphs.py:canned", "newer_keras.py:columns", x, LABELS[:, None])

    assert found.cause.startswith("reduction of the loss: OLD sums over the examples")


def test_rows_of_an_embedding_that_keras_3_squares_one_by_one_are_named(compare):
    found = compare("older_graphs.py:lstm", "newer_keras.py:lstm_of_keras", TOKENS)

    assert found.cause.startswith("repeated rows of an embedding's gradient")


@pytest.mark.parametrize(
    ("old", "new", "x", "y"),
    [
        ("canned_mean", "columns", {"size": ROWS[:, :2], "kind": TOKENS[:, 0]}, LABELS[:, None]),
        ("images", "images", IMAGES, LABELS),
        ("factors", "factors", {"user": TOKENS[:, 0], "item": TOKENS[:, 1]}, ROWS[:, 0]),
    ],
)
def test_ports_of_graphs_get_certificates(compare, old, new, x, y):
    found = compare(f"older_graphs.py:{old}", f"newer_keras.py:{new}", x, y)

    assert found.is_equivalent, found.verdict


@pytest.mark.parametrize(
    ("new", "x", "text"),
    [
        ("not_compiled", ROWS, "the model is not compiled"),
        (
            "broken",
            ROWS,
            r"NameError: name 'None_' is not defined\n.*newer_keras.py:\d+, in broken",
        ),
        ("noisy", ROWS, "noise is not the same in two passes over a batch"),
        ("wide", ROWS, r"can't be mapped: left in OLD: dense/kernel \[6, 3\]"),
        ("equal", ROWS[:, :5], "OLD .*older_keras.py:plain: ValueError"),
    ],
)
def test_what_can_not_be_compared_is_one_message(compare, new, x, text):
    with pytest.raises(errors.ConfigError, match=text):
        compare("older_keras.py:plain", f"newer_keras.py:{new}", x)
