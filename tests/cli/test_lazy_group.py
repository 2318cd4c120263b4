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
