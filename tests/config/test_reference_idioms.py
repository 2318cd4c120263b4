"""Configs as programs of the Model Garden write and use them."""

import copy
import dataclasses
import pickle
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union  # noqa: UP035

import numpy as np
import pytest

from quintain import config as hyperparams
from quintain import errors
from quintain.config import base_config, yaml_io
from quintain.garden.config import params_dict


@dataclasses.dataclass
class Model(base_config.Config):
    width: int = 8
    name: str = "model"


@dataclasses.dataclass
class WideModel(Model):
    depth: int = 2


@dataclasses.dataclass
class OtherModel(Model):
    rate: float = 0.1


@dataclasses.dataclass
class Stranger(base_config.Config):
    width: int = 3


@dataclasses.dataclass
class Idioms(base_config.Config):
    sizes: Tuple[float] = (1.0, 2.0, 3.0)  # noqa: UP006
    labels: Optional[Tuple[str]] = None  # noqa: UP006, UP045
    rate: float = None
    name: str = None
    steps: List[int] = None  # noqa: UP006
    choice: Optional[Model] = None  # noqa: UP045
    missing: Model = None
    anything: Any = None
    wrong: int = 0.5
    stride: Union[int, Sequence[Union[int, float]]] = 2  # noqa: UP007
    old: str = base_config.unused("", "Use name.")


@dataclasses.dataclass
class Task(base_config.Config):
    model: WideModel = dataclasses.field(default_factory=WideModel)
    parts: Tuple[Model, ...] = (Model(), WideModel())  # noqa: UP006


def test_defaults_say_what_annotations_leave_out():
    config = Idioms()

    assert (config.sizes, config.rate, config.wrong) == ((1.0, 2.0, 3.0), None, 0.5)

    config.override({"sizes": [4, 5], "labels": ["a", "b"], "rate": 2, "steps": [1], "stride": [2]})
    config.missing = {"width": 3}

    assert (config.sizes, config.labels, config.rate) == ((4.0, 5.0), ("a", "b"), 2.0)
    assert (config.steps, config.missing.width, config.stride) == ([1], 3, (2,))
    with pytest.raises(errors.ConfigError, match=r"wrong: got 0\.25, expected an integer"):
        config.wrong = 0.25


def test_a_config_of_a_related_class_takes_the_place_of_another():
    task = Task(model=OtherModel(rate=0.5))

    assert (type(task.model), task.model.rate) == (OtherModel, 0.5)

    task.model = Model(width=1)
    task.override({"model": {"width": 2}})
    assert (type(task.model), task.model.width) == (Model, 2)
    with pytest.raises(errors.ConfigError, match="model: got a Stranger, expected a mapping for W"):
        task.model = Stranger()


def test_a_dictionary_is_used_like_a_config():
    @dataclasses.dataclass
    class Options(base_config.Config):
        kwargs: dict[str, Any] = None
        sizes: Dict[str, Model] = dataclasses.field(default_factory=dict)  # noqa: UP006

    options = Options(kwargs={"rate": 1}, sizes={"small": {"width": 1}})
    options.kwargs.rate = 2

    assert (options.kwargs.rate, options.kwargs.as_dict()) == (2, {"rate": 2})
    assert options.sizes.small.width == 1
    assert copy.deepcopy(options.kwargs) == pickle.loads(pickle.dumps(options.kwargs))
    options.lock()
    with pytest.raises(errors.ConfigError, match="locked"):
        options.kwargs.rate = 3
    with pytest.raises(AttributeError, match="Did you mean 'rate'"):
        _ = options.kwargs.rat


def test_elements_of_a_tuple_keep_their_classes():
    task = Task()

    task.override({"parts": [{"width": 1}, {"depth": 5}]})
    assert [type(part) for part in task.parts] == [Model, WideModel]
    assert task.parts[1].depth == 5

    task.override({"parts": []})
    assert task.parts == ()


def test_numbers_of_numpy_are_numbers():
    config = Idioms(steps=[np.int64(3)], rate=np.float32(0.5))

    config.anything = np.float64(1.5)

    assert (config.steps, config.rate, config.anything) == ([3], 0.5, 1.5)
    assert type(config.anything) is float


def test_what_a_class_computes_sees_the_values_that_were_given():
    @dataclasses.dataclass
    class Doubled(base_config.Config):
        size: int = 2
        double: int = 0

        def __post_init__(self, default_params, restrictions):
            super().__post_init__(default_params, restrictions)
            self.double = 2 * self.size

    assert [Doubled().double, Doubled({"size": 5}).double, Doubled(size=7).double] == [4, 10, 14]
    with pytest.raises(errors.ConfigError, match="size: got 'x'"):
        Doubled({"size": "x"})


def test_a_field_without_a_meaning_is_taken_at_its_default_only():
    config = Idioms(old="")

    config.override({"old": ""})

    with pytest.raises(
        errors.ConfigError, match=r"old: got 'x', expected only the default ''.*Use"
    ):
        config.override({"old": "x"})
    assert "old" not in base_config.used_values(config)


def test_every_config_is_a_params_dict():
    assert isinstance(Model(), hyperparams.ParamsDict)
    assert issubclass(Model, params_dict.ParamsDict)
    assert not isinstance({}, hyperparams.ParamsDict)
    assert (base_config.Config.SEQUENCE_TYPES, type(None) in Model.IMMUTABLE_TYPES) == (
        (list, tuple),
        True,
    )


def test_tuples_that_the_reference_wrote_are_read():
    text = "sizes: !!python/tuple\n- 1.0\n- 2.0\nlabels: !!python/tuple [a]\n"

    assert yaml_io.load_text(text) == {"sizes": [1.0, 2.0], "labels": ["a"]}
    with pytest.raises(errors.ConfigError, match="is not supported"):
        yaml_io.load_text("sizes: !!python/tuple a")
