"""Config changes that a resumed run may and may not have."""

import dataclasses
import difflib
import fnmatch
import shlex
from collections.abc import Mapping
from typing import Any, Final

from quintain import errors
from quintain.config import provenance
from quintain.settings import config_definitions as cfg

FREE_FIELDS: Final = (
    # How long, and what is written on the way.
    "trainer.train_steps",
    "trainer.steps_per_loop",
    "trainer.summary_interval",
    "trainer.checkpoint_interval",
    "trainer.max_to_keep",
    "trainer.validation_*",
    "trainer.continuous_eval_timeout",
    "trainer.best_checkpoint_*",
    "trainer.early_stopping*",
    "trainer.loss_upper_bound",
    "trainer.recovery_*",
    "trainer.preemption_on_demand_checkpoint",
    "trainer.norm_summaries",
    "trainer.actions*",
    "trainer.loggers*",
    "trainer.*_tf_function",
    "trainer.*_tf_while_loop",
    "trainer.allow_tpu_summary",
    "task*.validation_data*",
    "task*.allow_image_summary",
    "task*.print_translations",
    "task*.eval_steps",
    "eval_tasks*",
    # How fast, with the same results.
    "runtime.run_eagerly",
    "runtime.gpu_thread_mode",
    "runtime.per_gpu_thread_count",
    "runtime.dataset_num_private_threads",
    "runtime.worker_hosts",
    "runtime.task_index",
    "runtime.tpu",
    "task*.train_data.prefetch_buffer_size",
    "task*.train_data.ram_budget",
    "task*.train_data.autotune_algorithm",
    "task*.train_data.tf_data_service_*",
    "task*.train_data.trainer_id",
)
"""Fields, as patterns of dotted paths, that may change while a run is gone on with: they neither
change what a step computes nor which examples it sees."""

_ELASTIC_FIELDS: Final = ("runtime.distribution_strategy", "runtime.num_virtual_cpus")
"""Fields that may change as well while `runtime.elastic` is set."""

_MAX_SHOWN: Final = 20


def find_changes(
    former: Mapping[str, Any], params: cfg.ExperimentConfig
) -> list[tuple[str, Any, Any]]:
    """Returns the fields that differ and may not change freely: path, former value, new value.

    A field that an older version did not have, and that is at its default now, does not differ.

    Args:
        former: Content of the run's `params.yaml`.
        params: The experiment as it is now.
    """
    plain = params.as_dict()
    former = {name: value for name, value in former.items() if name in plain}
    is_elastic = params.runtime.elastic and (former.get("runtime") or {}).get("elastic")
    free = (*FREE_FIELDS, *(_ELASTIC_FIELDS if is_elastic else ()))
    return [
        (path, old, new)
        for path, old, new in provenance.diff_dicts(_by_element(former), _by_element(plain))
        if not any(fnmatch.fnmatchcase(path, pattern) for pattern in free)
        if old is not provenance.MISSING or not _is_default(params, path)
    ]


def check_config_change(
    former: Mapping[str, Any],
    params: cfg.ExperimentConfig,
    model_dir: str,
    *,
    is_allowed: bool,
    kept_as: str,
) -> None:
    """Checks that a run with checkpoints goes on with the settings that made them.

    Args:
        former: Content of the run's `params.yaml`.
        params: The experiment as it is now.
        model_dir: Directory of the run.
        is_allowed: Whether any change is wanted.
        kept_as: Name that the former `params.yaml` would get.

    Raises:
        ConfigError: Listing the changes.
    """
    changes = [] if is_allowed else find_changes(former, params)
    if not changes:
        return
    lines = [f"  {path}: {old!r} -> {new!r}" for path, old, new in changes[:_MAX_SHOWN]]
    if len(changes) > _MAX_SHOWN:
        lines.append(f"  and {len(changes) - _MAX_SHOWN} more")
    raise errors.ConfigError(
        f"model_dir: the run in {model_dir!r} was trained with other settings:\n"
        + "\n".join(lines)
        + "\nTo go on with the new ones, add --allow-config-change (the former are kept as "
        f"{kept_as}). To go on with the former ones, leave the experiment and the overrides "
        "out. To start anew, give another --model-dir."
    )


def check_gin_change(former: str, bindings: str, path: str, *, is_allowed: bool) -> None:
    """Checks that a run with checkpoints goes on with the gin bindings that made them.

    Args:
        former: The run's bindings, one on each line; empty for none.
        bindings: The present ones.
        path: File with `former`.
        is_allowed: Whether any change is wanted.

    Raises:
        ConfigError: Listing the changes.
    """
    if is_allowed or former == bindings:
        return
    difference = difflib.ndiff(former.splitlines(), bindings.splitlines())
    lines = [f"  {line}" for line in difference if line.startswith(("-", "+"))]
    again = f"add --gin-file={shlex.quote(path)}" if former else "leave the gin flags out"
    raise errors.ConfigError(
        "gin: the run was trained with other bindings (- before, + now):\n"
        + "\n".join(lines[:_MAX_SHOWN])
        + f"\nTo go on with the former ones, {again}. To go on with the new ones, add "
        "--allow-config-change."
    )


def _is_default(params: cfg.ExperimentConfig, path: str) -> bool:
    """Returns whether a field has the value that its class gives it."""
    *parents, name = path.replace("[", ".").replace("]", "").split(".")
    owner: Any = params
    for part in parents:
        owner = owner[int(part)] if part.isdecimal() else getattr(owner, part, None)
    fields = dataclasses.fields(owner) if dataclasses.is_dataclass(owner) else ()
    for field in fields:
        if field.name == name:
            default = field.default
            if field.default_factory is not dataclasses.MISSING:
                default = field.default_factory()
            return bool(getattr(owner, name) == default)
    return False


def _by_element(params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns nested mappings with an entry `name[0]`, ... for each mapping in a list."""
    split: dict[str, Any] = {}
    for name, value in params.items():
        if isinstance(value, Mapping):
            split[name] = _by_element(value)
        elif isinstance(value, list | tuple) and any(isinstance(one, Mapping) for one in value):
            parts = {f"{name}[{index}]": one for index, one in enumerate(value)}
            split.update(_by_element(parts))
        else:
            split[name] = value
    return split
