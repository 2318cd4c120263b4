"""`ParamsDict`: nested parameters without a class, whose names are fixed when it is made.

It is what the reference's programs use where they have no dataclass. New programs use `Config`.
"""

import contextlib
import os
from collections.abc import Mapping
from typing import Any, ClassVar

from quintain import errors
from quintain.config import base_config, overrides, yaml_io
from quintain.files import file_io, file_paths

_RESERVED = ("_locked", "_restrictions")


class _ParamsDictMeta(type(base_config.Config)):  # type: ignore[misc]  # mypy knows no such base
    """Takes every config for a `ParamsDict`, as in the reference, where it is the base of all."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, base_config.Config)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, base_config.Config)


class ParamsDict(base_config.Config, metaclass=_ParamsDictMeta):
    """Nested parameters, read and set as attributes.

    Example:
        >>> params = ParamsDict({"model": {"width": 8}}, restrictions=["model.width > 0"])
        >>> params.model.width = 16
        >>> params.override({"model": {"depth": 2}}, is_strict=False)
        >>> params.as_dict()
        {'model': {'width': 16, 'depth': 2}}
        >>> params.model.widht = 3
        Traceback (most recent call last):
            ...
        quintain.errors.UnknownKeyError: widht: unknown; expected one of width, depth. \
Did you mean 'width'?
    """

    RESERVED_ATTR: ClassVar[tuple[str, ...]] = _RESERVED

    _takes_new_names: ClassVar[bool] = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_complete and not name.startswith("_") and name not in self:
            self._check_unlocked(name)
            known = list(self.as_dict())
            raise errors.UnknownKeyError(
                f"{name}: unknown; expected one of {', '.join(known) or '(nothing)'}."
                f"{errors.suggest(name, known)}"
            )
        super().__setattr__(name, value)

    def _apply_one(
        self, name: str, value: Any, path: str, is_strict: bool, problems: list[errors.Problem]
    ) -> None:
        value = value.as_dict() if isinstance(value, base_config.Config) else value
        super()._apply_one(name, value, path, is_strict, problems)
        vars(self)[name] = _to_params(vars(self).get(name))

    def _convert(self, name: str, value: Any, path: str, problems: list[errors.Problem]) -> Any:
        return _to_params(super()._convert(name, value, path, problems))


def _to_params(value: Any) -> Any:
    """Returns a value with `ParamsDict`s in place of nameless configs."""
    if type(value) is base_config.Config:
        return ParamsDict(value.as_dict())
    if isinstance(value, list | tuple):
        return type(value)(_to_params(part) for part in value)
    return value


def override_params_dict(
    params: base_config.Config, dict_or_string_or_yaml_file: Any, is_strict: bool
) -> base_config.Config:
    """Overrides parameters, and returns them.

    Args:
        params: A `ParamsDict` or another config; changed in place.
        dict_or_string_or_yaml_file: A mapping, another config, overrides such as `a.b=1,c=[1,2]`,
            YAML or JSON text, or the name of a YAML or JSON file. Nothing is changed if it is
            empty.
        is_strict: Whether names that there are not are errors.

    Raises:
        ConfigError: If it is none of these, or names what there is not.
    """
    given = dict_or_string_or_yaml_file
    if not given:
        return params
    if isinstance(given, base_config.Config):
        given = given.as_dict()
    if isinstance(given, str):
        given = _read_string(given)
    if not isinstance(given, Mapping):
        raise errors.ConfigError(
            f"params: got {errors.show(given)}, expected a mapping, overrides, YAML "
            f"text or a YAML file."
        )
    params.override(given, is_strict)
    return params


def _read_string(text: str) -> Mapping[str, Any]:
    """Reads overrides, the name of a file or YAML text; raises the problem of the overrides."""
    if not file_paths.is_local(text) or file_io.isfile(text):
        return yaml_io.load_file(text)
    try:
        return overrides.parse_overrides(text)
    except errors.ConfigError:
        with contextlib.suppress(errors.ConfigError):
            values = yaml_io.load_text(text)
            if isinstance(values, Mapping):
                return values
        raise


def nested_csv_str_to_json_str(csv_str: str) -> str:
    """Returns overrides such as `a.b=1,c=[1,2],d[0]=x` as one line of YAML.

    In spite of the function's name the line is no JSON: names stand without quotes. Text stands in
    quotes, so that it remains text.

    Args:
        csv_str: Pairs, whose names begin with a letter, without blanks before the first one.

    Raises:
        ConfigError: If the pairs are malformed, showing the place; or if lists are nested.

    Example:
        >>> nested_csv_str_to_json_str("a.b=1,c=[1,2],d=gs://bucket")
        "{a : {b : 1}, c : [1, 2], d : 'gs://bucket'}"
    """
    if not csv_str:
        return ""
    if not csv_str[0].isalpha():
        raise errors.ConfigError(
            f"params: got {errors.show(csv_str)}, expected a name at the beginning."
        )
    return _to_line(overrides.parse_pairs(csv_str), "")


def _to_line(value: Any, path: str) -> str:
    """Returns plain data as YAML on one line, in the form that the reference writes."""
    if isinstance(value, dict):
        return "{" + ", ".join(_to_entry(name, part, path) for name, part in value.items()) + "}"
    if isinstance(value, list):
        if any(isinstance(part, list) for part in value):
            raise errors.ConfigError(
                f"{path}: got {errors.show(value)}, expected a list without lists in "
                f"it; `override` takes "
                "nested lists in a mapping."
            )
        return "[" + ", ".join(_to_line(part, path) for part in value) + "]"
    if isinstance(value, str) and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return yaml_io.dump_scalar(value)


def _to_entry(name: Any, value: Any, path: str) -> str:
    here = f"{path}.{name}" if path else str(name)
    if not isinstance(name, str) or not name[:1].isalpha():
        raise errors.ConfigError(
            f"{here}: got {errors.show(name)}, expected a name that begins with a letter."
        )
    return f"{yaml_io.dump_scalar(name)} : {_to_line(value, here)}"


def read_yaml_to_params_dict(file_path: str) -> ParamsDict:
    """Returns the parameters in a YAML file.

    Raises:
        ConfigError: If it can't be read, with the line.
    """
    return ParamsDict(yaml_io.load_file(os.fspath(file_path)))


def save_params_dict_to_yaml(params: base_config.Config, file_path: str) -> None:
    """Writes parameters to a YAML file; lists and tuples are written on one line."""
    with file_io.open(file_path, "w") as file:
        file.write(yaml_io.dump(params.as_dict()))
