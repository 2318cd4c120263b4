import json

import numpy as np
import pytest

from quintain import errors
from quintain.certify import variable_map


def weight(name, *shape, layer=0, is_trainable=True):
    return {"name": name, "shape": shape, "layer": layer, "is_trainable": is_trainable}


def test_names_go_before_order():
    old = [weight("b/kernel", 2, 2), weight("a/kernel", 2, 2)]
    new = [weight("model/a/kernel", 2, 2), weight("model/b/kernel", 2, 2)]

    found = variable_map.match(old, new)

    assert [one.old for one in found.entries] == ["a/kernel", "b/kernel"]


def test_names_of_tensorflow_1_are_known_and_the_rest_goes_by_order():
    old = [weight("conv1/weights", 3, 4), weight("conv1/biases", 4), weight("x/y", 1, 1, 4, 5)]
    new = [weight("c/kernel", 3, 4), weight("c/bias", 4), weight("d/kernel", 4, 5)]

    found = variable_map.match(old, new)

    assert [one.old for one in found.entries] == ["conv1/weights", "conv1/biases", "x/y"]
    assert found.apply([np.ones(one["shape"]) for one in old])[2].shape == (4, 5)


def test_a_kernel_that_holds_both_of_an_rnn_is_split():
    old = [weight("rnn/basic_lstm_cell/kernel", 5, 8), weight("rnn/basic_lstm_cell/bias", 8)]
    new = [
        weight("lstm/lstm_cell/kernel", 3, 8),
        weight("lstm/lstm_cell/recurrent_kernel", 2, 8),
        weight("lstm/lstm_cell/bias", 8),
    ]
    values = [np.arange(40.0).reshape(5, 8), np.zeros(8)]

    found = variable_map.match(old, new)
    texts = dict(found.list_alternatives())
    text = next(one for one in texts if "order icfo" in one and "1 is added" in one)
    kernel, recurrent, bias = texts[text].apply(values)

    assert found.entries[1].rows == (3, 5)
    np.testing.assert_array_equal(kernel[0], [0, 1, 4, 5, 2, 3, 6, 7])
    np.testing.assert_array_equal(recurrent[0], [24, 25, 28, 29, 26, 27, 30, 31])
    np.testing.assert_array_equal(bias, [0, 0, 1, 1, 0, 0, 0, 0])
    assert not texts[text].apply(values, is_gradient=True)[2].any()


def test_kernels_of_stacked_rnns_of_one_size_are_split_each():
    old = [weight(f"cell_{number}/kernel", 4, 8) for number in range(2)]
    names = ("kernel", "recurrent_kernel")
    new = [weight(f"lstm_{number}/{name}", 2, 8) for number in range(2) for name in names]

    found = variable_map.match(old, new)

    assert [(one.old, one.rows) for one in found.entries] == [
        ("cell_0/kernel", (0, 2)), ("cell_0/kernel", (2, 4)),
        ("cell_1/kernel", (0, 2)), ("cell_1/kernel", (2, 4)),
    ]  # fmt: skip


def test_gates_and_candidate_of_an_older_gru_are_joined(tmp_path):
    old = [
        weight("gru_cell/gates/kernel", 5, 4), weight("gru_cell/gates/bias", 4),
        weight("gru_cell/candidate/kernel", 5, 2), weight("gru_cell/candidate/bias", 2),
    ]  # fmt: skip
    new = [
        weight("gru/kernel", 3, 6), weight("gru/recurrent_kernel", 2, 6), weight("gru/bias", 6)
    ]  # fmt: skip
    values = [np.full(one["shape"], number) for number, one in enumerate(old)]
    values[1][:] = [4, 4, 5, 5]

    found = variable_map.match(old, new)
    kernel, recurrent, bias = found.apply(values)

    assert (kernel.shape, recurrent.shape) == ((3, 6), (2, 6))
    np.testing.assert_array_equal(kernel[0], [0, 0, 0, 0, 2, 2])
    np.testing.assert_array_equal(bias, [5, 5, 4, 4, 3, 3])  # Update, reset, candidate.
    path = tmp_path / "map.json"
    path.write_text(variable_map.to_json(found.entries))
    assert variable_map.read(path, old, new).entries == found.entries


def test_variables_that_are_left_are_named():
    with pytest.raises(errors.ConfigError, match=r"left in OLD: a/kernel \[2, 3\]; left in NEW: b"):
        variable_map.match([weight("a/kernel", 2, 3)], [weight("b/kernel", 4, 5)])


def test_a_file_gives_the_map_back(tmp_path):
    old, new = [weight("a", 2, 3)], [weight("b", 3, 2)]
    found = variable_map.match(old, new).replace({0: {"transpose": (1, 0)}})
    path = tmp_path / "map.json"
    path.write_text(variable_map.to_json(found.entries))

    assert variable_map.read(path, old, new).entries == found.entries


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([{"new": "b", "old": "c"}], "no variable 'c' in OLD"),
        ([], "no entry for 'b'"),
        (
            [{"new": "b", "old": "a", "gate": 1}],
            "expected a list of entries with add, beside, gates",
        ),
        ([{"new": "b", "old": "a", "rows": [0, 1]}], "b: cannot reshape"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path, rows, text):
    path = tmp_path / "map.json"
    path.write_text(json.dumps(rows))

    with pytest.raises(errors.ConfigError, match=text):
        variable_map.read(path, [weight("a", 2, 3)], [weight("b", 3, 2)])
