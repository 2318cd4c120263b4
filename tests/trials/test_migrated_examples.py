"""The examples that were moved from PEDL and Determined run, as they are after the move."""

import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "migration" / "pedl" / "after"
KINDS = {
    "graphs": ["digits_graph", "digits_estimator"],
    "keras": ["digits_keras", "digits_determined_keras"],
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results(run_program):
    found = {}
    for kind, names in KINDS.items():
        directories = [str(EXAMPLES / name) for name in names]
        program = ROOT / "tests" / "programs" / "run_migrated_examples.py"
        found |= run_program(program, kind, *directories, is_fresh=True)
    return found


@pytest.mark.long("tests/contracts/test_seed_trials.py trains each kind of trial in every run")
@pytest.mark.parametrize("name", [name for names in KINDS.values() for name in names])
def test_the_example_trains_and_its_checkpoint_is_restored(results, name):
    assert results[name][-1] == "The restored trial validates and trains as before. All is well."


def test_metrics_have_the_names_of_pedl(results):
    def told(name, start):
        return next(line for line in results[name] if line.startswith(start))

    assert "error" in told("digits_graph", "Validated on 360 examples")
    assert "accuracy" in told("digits_estimator", "Validated on 360 examples")
    assert "validation_error" in told("digits_keras", "Validated on 360 examples")
    assert "val_accuracy" in told("digits_determined_keras", "Validated on 360 examples")


def test_code_for_keras_2_finds_its_names(results):
    found = results["older_keras"]
    assert found["same"] == [True] * 5
    # The rate at a step is the one that was set, divided by 1 + decay * step.
    decayed = 0.4 / (1 + 0.5 * 2)
    assert found["rates"] == pytest.approx([0.1, 0.1 / (1 + 0.5), decayed, decayed])
    assert found["mean"] == 2.0
    one, two, both = found["losses"]
    assert both == pytest.approx(2 * one + 3 * two)
    assert found["plain"] == pytest.approx(0.2)
    assert "unknown" in found["refused"]
    assert found["measured"] == ["loss", "mae"]
    assert found["tensorflow"] == [True, True, True]
