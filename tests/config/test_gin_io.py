import inspect

import pytest

from quintain import errors
from quintain.config import gin_io


@gin_io.configurable
def build_thing(width: int = 8, depth: int = 2) -> tuple[int, int]:
    return width, depth


@gin_io.configurable
class Machine:
    def __init__(self, power, speed=1):
        self.power, self.speed = power, speed


class FastMachine(Machine):
    def __init__(self, power):
        super().__init__(power)


@pytest.fixture(autouse=True)
def _no_bindings_are_left():
    yield
    gin_io.clear()


def test_without_bindings_a_configurable_is_the_plain_function():
    assert build_thing(depth=3) == (8, 3)
    assert list(inspect.signature(build_thing).parameters) == ["width", "depth"]
    assert list(inspect.signature(Machine.__init__).parameters) == ["self", "power", "speed"]


def test_files_and_params_bind_arguments(tmp_path):
    path = tmp_path / "a.gin"
    path.write_text("build_thing.width = 16\nMachine.speed = 5\n")

    gin_io.parse_files_and_params([str(path)], ["build_thing.depth = 4"])

    assert build_thing() == (16, 4)
    assert build_thing(width=1) == (1, 4)
    assert Machine(2).speed == 5
    assert FastMachine(2).speed == 5
    assert "build_thing.width = 16" in gin_io.operative_config()


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        ("build_thin.width = 1", "Did you mean 'build_thing'"),
        ("build_thing.widht = 1", "Did you mean 'width'"),
        ("build_thing.width = = 1", "gin:"),
    ],
)
def test_a_misspelt_binding_names_the_nearest(binding, message):
    with pytest.raises(errors.ConfigError, match=message):
        gin_io.parse_files_and_params([], [binding])


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(errors.ConfigError, match="--gin_file"):
        gin_io.parse_files_and_params([str(tmp_path / "none.gin")], [])


def test_errors_of_plain_calls_are_not_rewritten():
    @gin_io.configurable
    def fail_plainly():
        raise ValueError("plain")

    with pytest.raises(ValueError, match=r"^plain$"):
        fail_plainly()
