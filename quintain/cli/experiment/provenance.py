"""Provenance of config values, as comments beside them."""

from collections.abc import Mapping
from typing import Any

from quintain import errors
from quintain.config import yaml_io
from quintain.records.config import experiment_dialects, experiment_spec
from quintain.records.rows import codec, experiment


def annotate(record: experiment.Experiment) -> str:
    """Returns the complete config as YAML; each value has a comment that says what has set it.

    It is a line of the file, a default, or a change: an override when it was created, or a setting
    made later.

    Args:
        record: The experiment.
    """
    lines = yaml_io.find_lines(record.original_config)
    written = _parse(record.original_config)
    text = yaml_io.dump(record.config)
    places = {number: path for path, number in yaml_io.find_lines(text).items()}
    output = []
    for number, line in enumerate(text.splitlines(), start=1):
        path = places.get(number, "")
        value = _get(record.config, path)
        if not path or isinstance(value, Mapping):
            output.append(line)
        elif value != _get(written, path):
            output.append(f"{line}  # changed")
        else:
            number = next((lines[name] for name in _names(path) if name in lines), 0)
            output.append(f"{line}  # line {number}" if number else f"{line}  # default")
    return "\n".join(output) + "\n"


def _names(path: str) -> list[str]:
    """Returns the names that a field may have in a file, in either dialect."""
    owner, _, field = path.rpartition(".")
    former = [
        f"{owner}.{name}"
        for name, later in experiment_dialects.STEP_FIELDS.items()
        if later == field
    ]
    return [path, *former, *(["batches_per_step"] if path == "scheduling_unit" else [])]


def _parse(text: str) -> Mapping[str, Any]:
    try:
        config = experiment_spec.parse(yaml_io.load_text(text))
    except errors.ConfigError:
        return {}  # only its overrides make the file complete
    plain: Mapping[str, Any] = codec.to_plain(config.as_dict())
    return plain


def _get(config: object, path: str) -> object:
    for part in path.split("."):
        if not isinstance(config, Mapping) or part not in config:
            return None
        config = config[part]
    return config
