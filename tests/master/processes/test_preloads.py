import pytest

from quintain.master.processes import preloads

GRAPHS = "quintain.trials.graphs.graph_libraries"


@pytest.mark.parametrize(
    ("code", "is_warm", "has_graphs"),
    [
        ("class Digits(KerasTrial): ...", True, False),
        ("class Digits(TensorFlowTrial): ...", False, True),
        ("class Digits(EstimatorTrial): ...", False, True),
        ("class Digits(KerasTrial):\n    session = tf.compat.v1.Session()", False, False),
        ("config = tf.compat.v1.ConfigProto()", False, False),
        ("os.environ['TF_XLA_FLAGS'] = '--tf_xla_auto_jit=2'", False, False),
        ("from os import putenv", False, False),
        ("# os.environ is not touched", True, False),
    ],
)
def test_nothing_is_computed_ahead_for_graphs_and_their_sessions(
    tmp_path, code, is_warm, has_graphs
):
    (tmp_path / "model_def.py").write_text(code)
    found = preloads.find(preloads.PRELOADED, str(tmp_path), {})
    assert (preloads.WARM_START in found, GRAPHS in found) == (is_warm, has_graphs)


def test_what_is_computed_ahead_comes_before_the_libraries_of_the_code(tmp_path):
    (tmp_path / "model_def.py").write_text("import scipy\nclass Digits(KerasTrial): ...")
    found = preloads.find(preloads.PRELOADED, str(tmp_path), {"DATA": "1"})
    assert found[-2:] == [preloads.WARM_START, "scipy"]


OWN = "from quintain.trials import base_trial\nclass Own(base_trial.Trial): ..."


@pytest.mark.parametrize(
    ("code", "has_tensorflow"),
    [
        (OWN, False),
        (f"{OWN}  # as tensorflow would do it", False),
        (f"{OWN}\ndef train(): import tensorflow", True),
        (f"import keras\n{OWN}", True),
        (f"from quintain.nlp import tasks\n{OWN}", True),
        (f"import scipy\n{OWN}", True),
        ("class Digits(KerasTrial): ...", True),
        ("", True),
    ],
)
def test_tensorflow_is_not_imported_for_trials_without_it(tmp_path, code, has_tensorflow):
    (tmp_path / "model_def.py").write_text(code)

    found = preloads.find(preloads.PRELOADED, str(tmp_path), {})

    assert preloads.WORKER in found
    expected = set(preloads.PRELOADED) if has_tensorflow else {preloads.WORKER}
    assert set(found) & set(preloads.PRELOADED) == expected
