import uuid

import pytest

from quintain import errors
from quintain.config import gin_io, overrides, yaml_io
from quintain.files import file_io, whole_files
from quintain.garden.config import params_dict


@pytest.fixture(params=["ram", "memory"])
def place(request):
    path = f"{request.param}://test-{uuid.uuid4().hex}"
    file_io.makedirs(path)
    yield path
    file_io.rmtree(path)


def test_parameters_are_saved_read_and_override_others(place):
    path = f"{place}/a.yaml"
    params_dict.save_params_dict_to_yaml(params_dict.ParamsDict({"a": {"b": [1, 2]}}), path)

    read = params_dict.read_yaml_to_params_dict(path)
    other = params_dict.override_params_dict(params_dict.ParamsDict({"a": {"b": []}}), path, True)
    parsed = overrides.parse_overrides(path)

    assert read.as_dict() == other.as_dict() == parsed == {"a": {"b": [1, 2]}}


def test_a_gin_file_is_read(place):
    calls = []

    @gin_io.configurable(module="elsewhere")
    def spin(speed=1):
        calls.append(speed)

    whole_files.write(f"{place}/a.gin", "spin.speed = 3\n")
    try:
        gin_io.parse_files_and_params([f"{place}/a.gin"], [])
        spin()
    finally:
        gin_io.clear()

    assert calls == [3]


def test_errors_name_the_file_and_its_line(place):
    whole_files.write(f"{place}/a.yaml", "a: 1\na: 2\n")

    with pytest.raises(errors.ConfigError, match=f"{place}/a.yaml:2:"):
        yaml_io.load_file(f"{place}/a.yaml")
    with pytest.raises(errors.ConfigError, match=f"{place}/b.yaml: can't be read: No such file"):
        yaml_io.load_file(f"{place}/b.yaml")


@pytest.mark.parametrize(
    "read",
    [
        yaml_io.load_file,
        overrides.parse_overrides,
        params_dict.read_yaml_to_params_dict,
        lambda path: params_dict.override_params_dict(params_dict.ParamsDict(), path, True),
        lambda path: gin_io.parse_files_and_params([path], []),
    ],
)
def test_an_unknown_scheme_is_refused(read):
    with pytest.raises(errors.ConfigError, match=r"foo://a.yaml.* no file system for foo://"):
        read("foo://a.yaml")
