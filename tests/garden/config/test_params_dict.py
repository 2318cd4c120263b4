import dataclasses

import pytest
import yaml

import quintain as tfm
from quintain.config import base_config, yaml_io
from quintain.garden.config import oneof, params_dict


@pytest.fixture
def params():
    return params_dict.ParamsDict({"a": "aa", "b": 2, "c": {"c1": "cc", "c2": 20}})


def test_values_are_attributes_at_every_level(params):
    assert (params.a, params.b, params.c.c1) == ("aa", 2, "cc")
    assert isinstance(params.c, params_dict.ParamsDict)
    assert "a" in params
    assert "z" not in params
    assert params.get("b") == 2
    assert params.get("z", 5) == 5


def test_values_are_copied():
    source = {"a": {"b": [1]}}
    params = params_dict.ParamsDict(source)

    source["a"]["b"].append(2)

    assert params.as_dict() == {"a": {"b": [1]}}


def test_only_names_that_there_are_can_be_set(params):
    params.a = 10
    params.c.c1 = "x"
    params.c = {"new": 1}

    assert params.as_dict() == {"a": 10, "b": 2, "c": {"new": 1}}
    for section in (params, params.c):
        with pytest.raises(KeyError, match="unknown"):
            section.missing = 1
    with pytest.raises(AttributeError):
        _ = params.missing


def test_parameters_can_be_deleted(params):
    del params.a
    del params.c.c1

    assert params.as_dict() == {"b": 2, "c": {"c2": 20}}
    with pytest.raises(AttributeError):
        del params.a
    for name in params_dict.ParamsDict.RESERVED_ATTR:
        with pytest.raises(AttributeError):
            delattr(params, name)


def test_fields_of_configs_can_be_deleted_unless_they_are_locked():
    config = base_config.Config({"a": 1, "b": {"c": 2}})

    del config.b.c
    config.lock()

    assert config.as_dict() == {"a": 1, "b": {}}
    with pytest.raises(ValueError, match="locked"):
        del config.a


def test_a_deleted_field_is_gone_and_its_default_is_not_touched():
    @dataclasses.dataclass
    class Sgd(base_config.Config):
        decay: float = 0.5
        rate: float = 0.1

    @dataclasses.dataclass
    class Optimizer(base_config.Config):
        sgd: Sgd = Sgd()

    optimizer = Optimizer()
    delattr(optimizer.sgd, "decay")
    copied = optimizer.replace()

    for sgd in (optimizer.sgd, copied.sgd):
        assert sgd.as_dict() == {"rate": 0.1}
        with pytest.raises(AttributeError, match="decay"):
            _ = sgd.decay
        with pytest.raises(KeyError, match="decay"):
            sgd.override({"decay": 1.0})
    copied.sgd.decay = 0.25
    del optimizer.sgd
    with pytest.raises(AttributeError, match="sgd"):
        optimizer.sgd.rate = 9.0

    assert copied.sgd.decay == 0.25
    assert Optimizer().as_dict() == {"sgd": {"decay": 0.5, "rate": 0.1}}


def test_strict_overrides_take_names_that_there_are(params):
    params.override({"a": 2, "c": {"c1": "ccc"}}, is_strict=True)

    assert params.as_dict() == {"a": 2, "b": 2, "c": {"c1": "ccc", "c2": 20}}
    for wrong in ({"d": 1}, {"c": {"c3": 30}}):
        with pytest.raises(KeyError):
            params.override(wrong, is_strict=True)
    with pytest.raises(KeyError):
        params.override({"_locked": True})


def test_other_overrides_add_names(params):
    params.override({"d": "ddd", "c": {"c3": 30}}, is_strict=False)

    assert params.c.c3 == 30
    assert params.d == "ddd"
    params.d = 3


def test_an_override_may_be_another_params_dict(params):
    params.override(params_dict.ParamsDict({"b": 5}), is_strict=True)

    assert params.b == 5


def test_a_bare_config_is_strict_in_strict_overrides():
    config = base_config.Config({"a": 1, "c": {"c1": 2}})

    for wrong in ({"d": 1}, {"c": {"c3": 30}}):
        with pytest.raises(KeyError):
            config.override(wrong, is_strict=True)
    config.override({"c": {"c3": 30}}, is_strict=False)

    assert config.c.c3 == 30


def test_a_lock_is_deep(params):
    params.lock()

    for change in (
        lambda: params.override({"a": 1}),
        lambda: setattr(params.c, "c1", 1),
        lambda: setattr(params, "new", 1),
        lambda: delattr(params.c, "c1"),
    ):
        with pytest.raises(ValueError, match="locked"):
            change()


def test_an_override_with_params_inside_is_merged(params):
    params.override({"c": params_dict.ParamsDict({"c2": 21})})

    assert params.c.as_dict() == {"c1": "cc", "c2": 21}


def test_params_are_made_from_params(params):
    copied = params_dict.ParamsDict(params)
    copied.c.c2 = 21

    assert isinstance(copied.c, params_dict.ParamsDict)
    assert params.c.c2 == 20


@pytest.mark.parametrize("is_strict", [True, False])
@pytest.mark.parametrize("name", params_dict.ParamsDict.RESERVED_ATTR)
def test_reserved_names_are_no_parameters(params, name, is_strict):
    with pytest.raises(KeyError, match=name):
        params.override({name: True}, is_strict)
    with pytest.raises(KeyError, match=name):
        params_dict.ParamsDict({name: True})


@pytest.mark.parametrize(
    ("values", "restriction", "holds"),
    [
        ({"a": 1, "c": {"a": 1}}, "a == c.a", True),
        ({"a": 1, "c": {"a": 10}}, "a == c.a", False),
        ({"b": {"a": 10}, "c": {"a": 10}}, "b == c", True),
        ({"b": {"a": 10}, "c": {"a": 11}}, "b == c", False),
        ({"a": None}, "a == None", True),
        ({"a": 4}, "a == None", False),
        ({"c": {"a": 1}}, "c.a == 1", True),
        ({"c": {"a": -1.5}}, "c.a >= -1", False),
        ({"a": 1, "b": {"a": 11}}, "a == c", False),
    ],
)
def test_restrictions_compare_numbers_none_and_whole_parts(values, restriction, holds):
    params = params_dict.ParamsDict(values, [restriction])

    if holds:
        params.validate()
    else:
        with pytest.raises(KeyError, match=restriction):
            params.validate()


def test_an_override_may_break_a_restriction_until_it_is_validated():
    params = params_dict.ParamsDict({"a": 1, "c": {"a": 1}}, ["a == c.a"])

    params.override({"a": 11})

    with pytest.raises(KeyError, match=r"a == c\.a"):
        params.validate()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("a=1,b=2,c=3", "{a : 1, b : 2, c : 3}"),
        ("a = 1, b = 2, c = 3", "{a : 1, b : 2, c : 3}"),
        ("a=1,b.b1=2", "{a : 1, b : {b1 : 2}}"),
        ("a.aa.aaa.aaaaa.a=1", "{a : {aa : {aaa : {aaaaa : {a : 1}}}}}"),
        ("a.b[2]=3,a.b[0]=1,a.b[1]=2", "{a : {b : [1, 2, 3]}}"),
        ("a.b[1]=3.45,a.b[0]=2.232", "{a : {b : [2.232, 3.45]}}"),
        ("a=gs://abc, b=gs://def", "{a : 'gs://abc', b : 'gs://def'}"),
    ],
)
def test_pairs_become_the_line_that_the_reference_writes(text, line):
    assert params_dict.nested_csv_str_to_json_str(text) == line


@pytest.mark.parametrize("load", [yaml.safe_load, yaml_io.load_text])
def test_the_line_reads_back_as_what_was_given(load):
    line = params_dict.nested_csv_str_to_json_str(
        "a=1,b=2.,c=[1,2,3],d='hello, there',e=\"Hi.\",f=off,g=None,h=1e-5,i=2024-01-01,"
        "on=true,j='it''s',k=\"two\\nlines\",l={m: [x]},a=7"
    )

    assert load(line) == {
        "a": 7,
        "b": 2.0,
        "c": [1, 2, 3],
        "d": "hello, there",
        "e": "Hi.",
        "f": "off",
        "g": None,
        "h": 1e-5,
        "i": "2024-01-01",
        "on": True,
        "j": "it's",
        "k": "two\nlines",
        "l": {"m": ["x"]},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "expected `path=value`"),
        ("params.yaml", "expected `path=value`"),
        ("1a=2", "expected a name at the beginning"),
        (" a=1", "expected a name at the beginning"),
        ("_a=1", "expected a name at the beginning"),
        ("a=1,b._c=1", r"b\._c: got '_c', expected a name that begins with a letter"),
        ("a.b[0]=1,a.b[2]=3", r"a\.b\[1\] is not given"),
        ("a.b=[[1,2,3],[4,5,6]]", r"a\.b: got .* expected a list without lists"),
        ("a=[1,2", "is missing"),
    ],
)
def test_malformed_pairs_are_errors(text, message):
    with pytest.raises(ValueError, match=message):
        params_dict.nested_csv_str_to_json_str(text)


@pytest.mark.parametrize(
    "given",
    [
        {"b": 7, "c": {"c2": 21}},
        params_dict.ParamsDict({"b": 7, "c": {"c2": 21}}),
        "b=7,c.c2=21",
        "b = 7, c.c2 = 21",
        "{b: 7, c: {c2: 21}}",
        '{"b": 7, "c": {"c2": 21}}',
        "'b': 7\n'c':\n  c2: 21\n",
    ],
)
def test_everything_that_describes_overrides_is_taken(params, given):
    result = params_dict.override_params_dict(params, given, is_strict=True)

    assert result is params
    assert params.as_dict() == {"a": "aa", "b": 7, "c": {"c1": "cc", "c2": 21}}


@pytest.mark.parametrize("name", ["a.yaml", "a.json", "settings"])
def test_a_file_of_any_name_describes_overrides(params, tmp_path, name):
    path = tmp_path / name
    path.write_text('{"b": 7}\n')

    params_dict.override_params_dict(params, str(path), is_strict=True)

    assert params.b == 7


@pytest.mark.parametrize("nothing", [None, "", {}])
def test_nothing_overrides_nothing(params, nothing):
    before = params.as_dict()

    assert params_dict.override_params_dict(params, nothing, is_strict=True) is params
    assert params.as_dict() == before


def test_what_describes_no_overrides_is_an_error(params):
    with pytest.raises(ValueError, match="got 5, expected a mapping"):
        params_dict.override_params_dict(params, 5, is_strict=True)
    with pytest.raises(ValueError, match=r"missing\.yaml"):
        params_dict.override_params_dict(params, "missing.yaml", is_strict=True)
    with pytest.raises(ValueError, match="expected `path=value`"):
        params_dict.override_params_dict(params, "hello", is_strict=True)


def test_overrides_in_text_are_as_strict_as_others(params):
    with pytest.raises(KeyError, match="d"):
        params_dict.override_params_dict(params, "d=1", is_strict=True)
    params_dict.override_params_dict(params, "d=1,c.c3=2", is_strict=False)

    assert (params.d, params.c.c3) == (1, 2)


def test_yaml_files_round_trip(params, tmp_path):
    path = str(tmp_path / "params.yaml")
    params.override({"l": [1, 2]}, is_strict=False)

    params_dict.save_params_dict_to_yaml(params, path)

    assert params_dict.read_yaml_to_params_dict(path) == params


def test_tuples_are_written_as_lists_that_every_reader_knows(params, tmp_path):
    path = tmp_path / "params.yaml"
    params.override({"t": (1, 2), "rate": 1e-5}, is_strict=False)

    params_dict.save_params_dict_to_yaml(params, str(path))

    assert "t: [1, 2]" in path.read_text()
    assert yaml.safe_load(path.read_text()) == {**params.as_dict(), "t": [1, 2]}


def test_names_of_the_reference_are_in_their_places():
    assert tfm.hyperparams.ParamsDict is params_dict.ParamsDict
    assert tfm.hyperparams.params_dict is params_dict
    assert tfm.hyperparams.base_config is base_config
    assert tfm.hyperparams.oneof is oneof
    assert oneof.OneOfConfig is tfm.hyperparams.OneOfConfig
    assert tfm.hyperparams.override_params_dict is params_dict.override_params_dict


def test_a_field_without_a_class_takes_any_names():
    @dataclasses.dataclass
    class Stage(base_config.Config):
        task: base_config.Config = base_config.Config()

    stage = Stage()
    stage.override({"task": {"width": 3}})
    stage.override({"task": {"depth": 2}})

    assert stage.task.as_dict() == {"width": 3, "depth": 2}
