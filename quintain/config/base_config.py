"""`Config`: a dataclass that checks itself, reads and writes plain data, and can be locked.

Users write ordinary dataclasses that derive from `Config`. A mapping given for a field becomes the
class the field is annotated with; every value is checked against its annotation, strictly; a name
that no field has is an error, wherever it is used. All that is wrong is reported at once.
"""

import copy
import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

from typing_extensions import dataclass_transform

from quintain import errors
from quintain.config import (
    class_definitions,
    field_types,
    overrides,
    restrictions,
    type_words,
    value_tree,
    yaml_io,
)

B = TypeVar("B", bound=Callable[..., Any])

unused = class_definitions.unused
used_values = class_definitions.used_values


@dataclass_transform(field_specifiers=(dataclasses.field,))
class _ConfigMeta(type):
    """Completes every new instance: checks names before `__init__` runs and values after it."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        names = class_definitions.field_names(cls)
        unknown = sorted(kwargs.keys() - {*names, "default_params", "restrictions"})
        problems = [class_definitions.unknown_name(cls, name) for name in unknown]
        known = {name: value for name, value in kwargs.items() if name not in unknown}
        params = args[0] if args else known.get("default_params")
        missing = [name for name in class_definitions.required_names(cls) if name not in known]
        for name in missing:
            if isinstance(params, Mapping) and name in params:
                known[name] = params[name]
            else:
                words = type_words.describe(class_definitions.annotations(cls)[name])
                problems.append(errors.Problem(name, f"missing; expected {words}."))
        if missing and problems:
            given = params if isinstance(params, Mapping) else {}
            others = [str(name) for name in given if name not in (*names, *unknown)]
            problems += [class_definitions.unknown_name(cls, name) for name in others]
            _raise_if_any(problems)
        config = super().__call__(*args, **known)
        config._complete(problems)
        return config


@dataclasses.dataclass(eq=False, repr=False)
class Config(value_tree.ValueTree, metaclass=_ConfigMeta):
    """Base of all configs; by itself, a container for any names.

    Example:
        >>> @dataclasses.dataclass
        ... class Model(Config):
        ...     width: int = 8
        >>> @dataclasses.dataclass
        ... class Task(Config):
        ...     model: Model = Model()
        ...     name: str | None = None
        >>> task = Task(model={"width": 16})
        >>> task.override({"name": "small"})
        >>> task.as_dict()
        {'model': {'width': 16}, 'name': 'small'}
        >>> task.model.widht = 3
        Traceback (most recent call last):
            ...
        quintain.errors.UnknownKeyError: widht: unknown; Model has no such field. \
Did you mean 'width'?
    """

    default_params: dataclasses.InitVar["Mapping[str, Any] | Config | None"] = None
    """Values that override the defaults, as plain data; the first positional argument."""

    restrictions: dataclasses.InitVar[Sequence[str] | None] = None
    """Conditions between fields that `validate` checks, such as `train.steps >= warmup.steps`."""

    BUILDER: ClassVar[Callable[..., Any] | None] = None
    """What builds the object that the config describes; set by `bind`."""

    IMMUTABLE_TYPES: ClassVar[tuple[type, ...]] = (str, int, float, bool, type(None))
    """What a single value may be."""

    SEQUENCE_TYPES: ClassVar[tuple[type, ...]] = (list, tuple)
    """What may hold several values or configs in an order."""

    _local_names: ClassVar[Mapping[str, Any]] = {}

    _takes_new_names: ClassVar[bool] = True
    """Whether the first argument of the constructor may have names that are no fields."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        class_definitions.check_definition(cls)
        if "_takes_new_names" not in vars(cls):
            cls._takes_new_names = False
        # Annotations in quotes may name classes of the function that the class is defined in.
        cls._local_names = class_definitions.find_local_names(cls, sys._getframe(1))
        # A class without `__hash__` can't be the default of a dataclass field. Configs are mutable
        # and not hashable, but copied for each instance, so they are safe as defaults.
        setattr(cls, "__hash__", value_tree.refuse_to_hash)  # noqa: B010 - mypy refuses to have it assigned

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Creates an instance whose checks wait until `__init__` has run."""
        del args, kwargs
        config = super().__new__(cls)
        vars(config).update(
            _is_complete=False, _locked=False, _restrictions=[], _deleted=frozenset()
        )
        return config

    def __post_init__(  # type: ignore[override]  # a metaclass hides the InitVars from mypy
        self,
        default_params: "Mapping[str, Any] | Config | None",
        restrictions: Sequence[str] | None,
    ) -> None:
        """Stores restrictions and applies `default_params`; subclasses that override it call it.

        What a subclass computes after that call sees the values that were given.
        """
        vars(self)["_restrictions"] = list(restrictions or ())
        params = default_params.as_dict() if isinstance(default_params, Config) else default_params
        problems: list[errors.Problem] = []
        vars(self)["_problems"] = problems
        if params:
            self._convert_all(problems)
            self._apply(params, "", not self._takes_new_names, problems)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("BUILDER", "_BUILDER"):
            raise AttributeError(f"`{name}` is reserved; `bind` sets `BUILDER` of a whole class.")
        if name.startswith("_"):
            vars(self)[name] = value
            return
        self._check_unlocked(name)
        if not self._is_complete:
            vars(self)[name] = copy.deepcopy(value) if isinstance(value, Config) else value
            return
        problems: list[errors.Problem] = []
        converted = self._convert(name, value, name, problems)
        _raise_if_any(problems)
        vars(self)[name] = converted

    @classmethod
    def from_dict(cls, params: Mapping[str, Any]) -> Self:
        """Returns the default config overridden by `params`.

        Raises:
            ConfigError: Listing every unknown name and every wrong value.
        """
        return cls(params)

    @classmethod
    def from_yaml(cls, file_path: str) -> Self:
        """Returns the default config overridden by a YAML file.

        Raises:
            ConfigError: If the file can't be read, or naming file and line of each wrong key.
        """
        config = cls()
        config.override_from_yaml(file_path)
        return config

    @classmethod
    def from_json(cls, file_path: str) -> Self:
        """Returns the default config overridden by a JSON file. JSON is YAML, so is its reader."""
        return cls.from_yaml(file_path)

    @classmethod
    def from_args(cls, *args: Any, **kwargs: Any) -> Self:
        """Returns a config with `args` for the fields in their order, and `kwargs` by name.

        Raises:
            ConfigError: If there are more arguments than fields, or a field is given twice.
        """
        names = class_definitions.field_names(cls)
        if len(args) > len(names):
            raise errors.ConfigError(
                f"{cls.__name__}.from_args: got {len(args)} positional arguments, expected at most "
                f"{len(names)}: {', '.join(names)}."
            )
        values = dict(zip(names, args, strict=False))
        twice = sorted(values.keys() & kwargs.keys())
        if twice:
            raise errors.ConfigError(
                f"{cls.__name__}.from_args: given by position and by name: {', '.join(twice)}."
            )
        return cls(**values, **kwargs)

    def override(
        self, override_params: "Mapping[str, Any] | Config", is_strict: bool = True
    ) -> None:
        """Replaces the values named in `override_params`; mappings go into sub-configs.

        A list of configs of the same length is overridden element by element. If anything is wrong,
        nothing is changed.

        Args:
            override_params: Plain data or another config.
            is_strict: Whether a name that no field has is an error. Otherwise it becomes a new
                name.

        Raises:
            ConfigError: If the config is locked, or listing every unknown name and wrong value.
        """
        params = (
            override_params.as_dict() if isinstance(override_params, Config) else override_params
        )
        if self._locked:
            raise errors.ConfigError(f"{type(self).__name__} is locked and can't be overridden.")
        problems: list[errors.Problem] = []
        copy.deepcopy(self)._apply(params, "", is_strict, problems)
        _raise_if_any(problems)
        self._apply(params, "", is_strict, problems)

    def override_from_yaml(self, file_path: str) -> None:
        """Overrides with the contents of a YAML file.

        Raises:
            ConfigError: If the file can't be read, or naming file and line of each wrong key.
        """
        params, lines = yaml_io.load_file_with_lines(file_path)
        self.override_located(params, lambda path: f"{file_path}:{yaml_io.find_line(lines, path)}")

    def override_located(self, params: Mapping[str, Any], locate: Callable[[str], str]) -> None:
        """Overrides with values that came from somewhere.

        Args:
            params: Plain data.
            locate: Returns where the value of a dotted path was written, such as `my.yaml:3`.

        Raises:
            ConfigError: With the place of each problem.
        """
        with errors.located(locate):
            self.override(params)

    def replace(self, **kwargs: Any) -> Self:
        """Returns an unlocked copy with some values replaced.

        Raises:
            ConfigError: Listing every unknown name and every wrong value.
        """
        duplicate = copy.deepcopy(self)
        duplicate._set_locked(False)
        duplicate.override(kwargs)
        return duplicate

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields `(field, message)` for values that do not fit together. Meant to be overridden.

        What one field may hold is better said by its annotation: `Annotated[int, Ge(1)]`,
        `Literal["a", "b"]`.
        """
        yield from ()

    def validate(self) -> None:
        """Checks the restrictions and the `check` methods of this config and all below it.

        Raises:
            RestrictionError: If a restriction is violated.
            ConfigError: Listing everything else that does not fit together.
        """
        problems = list(self._find_misfits(""))
        _raise_if_any(problems)
        violated = [
            line
            for config in self._walk()
            if config._restrictions  # Few have any, and each of the others would be written out.
            for line in restrictions.find_violations(config._restrictions, config.as_dict())
        ]
        if violated:
            # A restriction begins with the path of the field that it is about.
            raise errors.RestrictionError(
                "\n".join(violated),
                [errors.Problem(line.partition(" ")[0], line) for line in violated],
            )

    def _complete(self, problems: list[errors.Problem]) -> None:
        """Checks and converts all values once `__init__` has run; raises what is wrong."""
        found = vars(self).pop("_problems", [])
        if not found:
            self._convert_all(problems)
        vars(self)["_is_complete"] = True
        _raise_if_any([*problems, *found])

    def _convert_all(self, problems: list[errors.Problem]) -> None:
        for name in class_definitions.field_names(type(self)):
            # A default of a field with `init=False` is only an attribute of the class.
            vars(self).setdefault(name, copy.deepcopy(getattr(type(self), name, None)))
        for name, value in list(self._items()):
            vars(self)[name] = self._convert(name, value, name, problems)

    def _apply(
        self, params: Any, path: str, is_strict: bool, problems: list[errors.Problem]
    ) -> None:
        if not isinstance(params, Mapping):
            message = f"got {errors.show(params)}, expected a mapping of names to values."
            problems.append(errors.Problem(path, message))
            return
        for name, value in params.items():
            here = f"{path}.{name}" if path else str(name)
            if not isinstance(name, str) or name.startswith("_"):
                problems.append(errors.Problem(here, "unknown; names are words.", is_unknown=True))
            elif name not in vars(self) and is_strict:
                problems.append(class_definitions.unknown_name(type(self), name, here))
            else:
                self._apply_one(name, value, here, is_strict, problems)

    def _apply_one(
        self, name: str, value: Any, path: str, is_strict: bool, problems: list[errors.Problem]
    ) -> None:
        current = vars(self).get(name)
        if isinstance(current, Config) and isinstance(value, Mapping):
            current._apply(value, path, is_strict and not self._is_open(current), problems)
        elif isinstance(current, list | tuple) and _matches_element_wise(current, value):
            for index, (part, new) in enumerate(zip(current, value, strict=True)):
                is_part_strict = is_strict and not self._is_open(part)
                part._apply(new, f"{path}[{index}]", is_part_strict, problems)
        elif isinstance(current, dict) and isinstance(value, Mapping):
            merged = overrides.merge(value_tree.to_plain(current), value_tree.to_plain(dict(value)))
            vars(self)[name] = self._convert(name, merged, path, problems)
        else:
            is_new = name not in vars(self) and not is_strict
            vars(self)[name] = (
                field_types.convert(Any, value, path, problems)
                if is_new
                else self._convert(name, value, path, problems)
            )

    def _is_open(self, part: "Config") -> bool:
        """Returns whether a part takes any names: a config without a class in a field of one."""
        return type(part) is Config and type(self) is not Config

    def _convert(self, name: str, value: Any, path: str, problems: list[errors.Problem]) -> Any:
        """Returns `value` as the field's annotation asks for it, or reports why it can't be."""
        if name in class_definitions.field_names(type(self)):
            return self._convert_field(name, value, path, problems)
        if type(self) is not Config and self._is_complete and name not in vars(self):
            problems.append(class_definitions.unknown_name(type(self), name, path))
            return value
        return field_types.convert(Any, value, path, problems)

    def _convert_field(
        self, name: str, value: Any, path: str, problems: list[errors.Problem]
    ) -> Any:
        own: list[errors.Problem] = []
        annotation = class_definitions.annotations(type(self)).get(name, Any)
        converted = field_types.convert(annotation, value, path, own)
        own += class_definitions.find_refusal(type(self), name, value, path)
        if own and class_definitions.is_plain_default(type(self), name, value):
            return copy.deepcopy(value)  # The author of a class knows better than its annotation.
        problems += own
        return converted

    def _find_misfits(self, path: str) -> Iterator[errors.Problem]:
        for name, value in self._items():
            # Lists and mappings can be changed without an assignment that would check them.
            if isinstance(value, list | dict):
                here = f"{path}.{name}" if path else name
                found: list[errors.Problem] = []
                self._convert(name, value, here, found)
                yield from found
        for name, message in self.check():
            yield errors.Problem(f"{path}.{name}" if path else name, message)
        for name, config in self._children():
            yield from config._find_misfits(f"{path}.{name}" if path else name)


value_tree.ValueTree._open_cls = Config


def _matches_element_wise(current: Sequence[Any], value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(current) == len(value) > 0
        and all(isinstance(part, Config) for part in current)
        and all(isinstance(part, Mapping) for part in value)
    )


def _raise_if_any(problems: Sequence[errors.Problem]) -> None:
    if problems:
        raise errors.ConfigError.from_problems(problems)


def bind(config_cls: type[Any]) -> Callable[[B], B]:
    """Returns a decorator that makes a class or function the builder of `config_cls`.

    Raises:
        ValueError: If it is no class, the class has a builder already, or the builder can't be
            called.

    Example:
        >>> @dataclasses.dataclass
        ... class Square(Config):
        ...     side: float = 1.0
        >>> @bind(Square)
        ... def build_area(config):
        ...     return config.side**2
        >>> square = Square(side=3.0)
        >>> square.BUILDER(square)
        9.0
    """
    if not isinstance(config_cls, type):
        raise errors.ConfigError(
            f"`config_cls`: got {errors.show(config_cls)}, expected a class of configs."
        )
    if config_cls.__dict__.get("BUILDER") is not None:
        raise ValueError(
            f"{config_cls.__name__} is bound to {errors.show(config_cls.BUILDER)} already."
        )

    def decorate(builder: B) -> B:
        if not callable(builder):
            raise errors.ConfigError(
                f"`builder`: got {errors.show(builder)}, expected a class or a function."
            )
        is_function = not isinstance(builder, type)
        config_cls.BUILDER = staticmethod(builder) if is_function else builder
        return builder

    return decorate
