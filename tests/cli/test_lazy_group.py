import pytest


def test_help_groups_the_commands_in_the_order_of_use(quintain):
    _, stdout, _ = quintain("--help")

    positions = [stdout.index(f"\n{title}:\n") for title in ("Train", "Search", "Use", "Operate")]
    assert positions == sorted(positions)
    assert positions[0] < stdout.index("\n  train ") < positions[1]


@pytest.mark.parametrize(
    ("typed", "meant"), [("trian", "train"), ("exprot", "export"), ("dcotor", "doctor")]
)
def test_swapped_letters_name_the_command_that_was_meant(quintain, typed, meant):
    code, _, stderr = quintain(typed)

    assert code == 2
    assert f"Did you mean '{meant}'?" in stderr


def test_help_shows_options_with_dashes_and_underscores_work_too(quintain):
    _, stdout, _ = quintain("train", "--help")
    assert "--model-dir DIR" in stdout
    assert "--model_dir" not in stdout

    said = [
        quintain("train", f"--{name}=runs/a_b", "--mode=evla")
        for name in ("model-dir", "model_dir")
    ]
    assert said[0] == said[1]
    assert "Did you mean 'eval'?" in said[0][2]


def test_a_misspelt_option_names_the_nearest(quintain):
    _, _, stderr = quintain("train", "--modle_dir=x")

    assert "No such flag '--modle-dir'. Did you mean '--model-dir'?" in stderr
