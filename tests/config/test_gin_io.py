import inspect
import pickle
import re

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


@gin_io.configurable
class Engine(Machine):
    def __init__(self, power, speed=3):
        super().__init__(power, speed)


@gin_io.configurable
class Inherited(Machine):
    pass


def define_again(number):
    @gin_io.configurable(name="again")
    def again(size=0):
        return number, size

    return again


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
        (
            "build_thin.width = 1",
            "No configurable matching 'build_thin'. Did you mean 'build_thing'",
        ),
        ("qqqqq.width = 1", "Known: "),
        ("build_thing.widht = 1", "parameter named 'widht'. Did you mean 'width'"),
        ("build_thing.qqqqq = 1", "It has: width, depth."),
        ("Machine.spede = 1", "Did you mean 'speed'"),
        ("build_thing.width = @build_thin()", "Did you mean 'build_thing'"),
        ("build_thing.width = %WIDTH", "No bindings specified for 'WIDTH"),
        ("build_thing.width = = 1", "Unable to parse value"),
        ("import no_such_module", "No module named 'no_such_module'"),
    ],
)
def test_a_wrong_binding_is_an_error_that_names_the_nearest(binding, message):
    with pytest.raises(errors.ConfigError) as caught:
        gin_io.parse_files_and_params([], ["build_thing.depth = 3", binding])

    assert message in str(caught.value)
    assert build_thing() == (8, 2)


def test_an_error_shows_the_binding():
    with pytest.raises(errors.ConfigError) as caught:
        gin_io.parse_files_and_params([], ["build_thing.depth = 3", "Machine.spede = 1"])

    assert str(caught.value).startswith("--gin-params: 'Machine.spede = 1': Configurable")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("# comment\nbuild_thing.widht = 1\n", "2"),
        ("build_thing.width =\n", "1"),
        ("import nope\n", "1"),
        ("build_thing.depth = 1\nbuild_thing.width = 'a\n", "2"),
        # Where a file ends too early, versions of Python tell other lines.
        ("build_thing.depth = 1\nbuild_thing.width = (1,\n", "[23]"),
        ("build_thing:\n    width = 1\n  depth = 1\n", "3"),
        ("build_thing.width = 1\0\n", "1"),
    ],
)
def test_an_error_in_a_file_names_file_and_line(tmp_path, content, line):
    path = tmp_path / "bad.gin"
    path.write_text(content)
    outer = tmp_path / "good.gin"
    outer.write_text(f"include '{path}'\n")

    for file in (path, outer):
        with pytest.raises(errors.ConfigError) as caught:
            gin_io.parse_files_and_params([str(file)], [])

        assert re.match(rf"{re.escape(str(path))}:{line}: ", str(caught.value)), caught.value


@pytest.mark.parametrize("binding", ["width = (1,", "width = 'a", "width = 1\0"])
def test_an_error_in_a_binding_shows_it(binding):
    with pytest.raises(errors.ConfigError) as caught:
        gin_io.parse_files_and_params([], ["build_thing.depth = 1", f"build_thing.{binding}"])

    assert str(caught.value).startswith("--gin-params: ")
    assert repr(f"build_thing.{binding}") in str(caught.value)


@pytest.mark.parametrize("name", ["none.gin", "."])
def test_a_missing_file_is_an_error(tmp_path, name):
    with pytest.raises(errors.ConfigError, match=r"--gin-file: '.*' can't be read"):
        gin_io.parse_files_and_params([str(tmp_path / name)], [])


def test_bindings_can_be_read_again_only_after_they_are_cleared():
    gin_io.parse_files_and_params([], ["build_thing.depth = 3"])

    with pytest.raises(errors.ConfigError, match=r"call `gin_io\.clear"):
        gin_io.parse_files_and_params([], ["build_thing.depth = 4"])
    assert build_thing() == (8, 3)

    gin_io.clear()
    assert build_thing() == (8, 2)
    gin_io.parse_files_and_params([], ["build_thing.depth = 4"])
    assert build_thing() == (8, 4)


def test_a_class_stays_a_class():
    machine = FastMachine(power=3)

    assert isinstance(Machine, type)
    assert isinstance(machine, Machine)
    assert pickle.loads(pickle.dumps(machine)).power == 3
    assert Machine.__name__ == "Machine"


def test_a_configurable_subclass_has_bindings_of_its_own():
    gin_io.parse_files_and_params([], ["Engine.speed = 7", "Machine.speed = 5"])

    assert Engine(1).speed == 7
    assert Machine(1).speed == 5
    assert FastMachine(1).speed == 5


def test_a_constructor_may_be_inherited():
    gin_io.parse_files_and_params([], ["Inherited.speed = 9"])

    assert Inherited(1).speed == 9
    assert Inherited(1, 2).speed == 2
    assert Machine(1).speed == 1


def test_name_and_module_may_be_chosen():
    @gin_io.configurable(name="chosen", module="somewhere")
    def build(size=1):
        return size

    gin_io.parse_files_and_params([], ["somewhere.chosen.size = 4"])

    assert build() == 4
    assert "chosen" in gin_io.known_names()


def test_what_is_defined_again_replaces_the_former():
    former, latter = define_again(1), define_again(2)

    gin_io.parse_files_and_params([], ["again.size = 4"])

    assert former() == (1, 0)
    assert latter() == (2, 4)


def test_what_is_defined_again_after_parsing_replaces_the_former():
    define_again(1)
    gin_io.parse_files_and_params([], ["again.size = 4"])
    gin_io.clear()

    latter = define_again(2)
    gin_io.parse_files_and_params([], ["again.size = 5"])

    assert latter() == (2, 5)


def test_a_class_without_constructor_is_refused():
    with pytest.raises(TypeError, match="Bare has no `__init__`"):

        @gin_io.configurable
        class Bare:
            pass


def test_errors_of_plain_calls_are_not_rewritten():
    @gin_io.configurable
    def fail_plainly():
        raise ValueError("plain")

    with pytest.raises(ValueError, match=r"^plain$"):
        fail_plainly()


def test_a_class_can_be_referred_to():
    @gin_io.configurable
    class Wheel:
        def __init__(self, size=1):
            self.size = size

    @gin_io.configurable
    def build_cart(wheel_cls=None):
        return wheel_cls(), wheel_cls(size=5)

    gin_io.parse_files_and_params([], ["build_cart.wheel_cls = @Wheel", "Wheel.size = 3"])

    first, second = build_cart()

    assert isinstance(first, Wheel)
    assert (first.size, second.size) == (3, 5)
    assert Wheel().size == 3
