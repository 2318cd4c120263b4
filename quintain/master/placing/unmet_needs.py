"""Unsatisfiable requirements: what trials need that no machine has."""

import collections
from collections.abc import Iterable, Sequence
from typing import Final

from quintain import errors
from quintain.master.placing import pools
from quintain.records.config import experiment_sections
from quintain.records.rows import node as node_lib

_MOST_NAMED: Final = 8
"""Kinds of machines that are described one by one."""


def find_needs(resources: experiment_sections.ResourcesConfig) -> pools.Needs:
    """Returns the requirements of an experiment's trials on machines and slots."""
    return pools.Needs(tuple(sorted(resources.node_labels.items())), resources.gpu)


def find_lack(
    resources: experiment_sections.ResourcesConfig, nodes: Iterable[node_lib.Node]
) -> str:
    """Returns what none of the machines has, and what they have; an empty text if one does."""
    nodes = [node for node in nodes if node.name or node.slots]
    pool = _build_pool(find_needs(resources), nodes)
    least = resources.least
    if pool.can_ever_hold(least.slots_per_trial, least.num_processes):
        return ""
    there = f" There {_describe_all(nodes)}."
    for name, value in sorted(resources.node_labels.items()):
        needs = pools.Needs(((name, value),))
        if not _build_pool(needs, nodes).slots:
            known = {node.labels[name] for node in nodes if name in node.labels}
            names = {each for node in nodes for each in node.labels}
            nearest = errors.suggest(value, known) if known else errors.suggest(name, names)
            return (
                f"resources.node_labels.{name}: got {errors.show(value)}, but no machine has this "
                f"label.{nearest}{there}"
            )
    if resources.node_labels and not pool.slots:
        needs = pools.Needs(find_needs(resources).labels)
        if not _build_pool(needs, nodes).slots:
            return (
                f"resources.node_labels: got {errors.show(dict(resources.node_labels))}, but no "
                f"machine has all of them.{there}"
            )
    if resources.gpu is not None and not pool.num_slots:
        wanted = "slots that are GPUs" if resources.gpu else "slots that are no GPUs"
        if isinstance(resources.gpu, str):
            wanted = "GPUs of this kind (label gpu)"
        with_labels = " with the labels" if resources.node_labels else ""
        return (
            f"resources.gpu: got {errors.show(resources.gpu)}, but no machine{with_labels} has "
            f"{wanted}.{there}"
        )
    most = max((len(own) for own in pool.slots.values()), default=0)
    whole = f"no machine has more than {most}"
    if resources.num_processes > 1:
        whole = f"all machines together have {pool.num_slots}"
    fitting = " that fit node_labels and gpu" if pool.num_slots < _count(nodes) else ""
    return (
        f"resources.slots_per_trial: got {resources.slots_per_trial}, but {whole} "
        f"slots{fitting}.{there}"
    )


def _build_pool(needs: pools.Needs, nodes: Iterable[node_lib.Node]) -> pools.Pool:
    pool = pools.Pool(needs)
    for node in nodes:
        pool.add_node(node.name, node.labels, node.slots, set())
    return pool


def _count(nodes: Sequence[node_lib.Node]) -> int:
    return sum(len(node.slots) for node in nodes)


def _describe_all(nodes: Sequence[node_lib.Node]) -> str:
    """Returns which machines there are, those that are the same together."""
    kinds: collections.Counter[str] = collections.Counter()
    names: dict[str, str] = {}
    for node in nodes:
        labels = ", ".join(f"{name}={value}" for name, value in sorted(node.labels.items()))
        what = f"{len(node.slots)} slot{'s' if len(node.slots) != 1 else ''}"
        described = f"{what}{f', {labels}' if labels else ''}"
        kinds[described] += 1
        names.setdefault(described, node_lib.title_of(node.name))
    if not kinds:
        return "is no machine"
    parts = [
        f"{names[kind]} ({kind})" if count == 1 else f"{count} machines ({kind} each)"
        for kind, count in kinds.most_common(_MOST_NAMED)
    ]
    if len(kinds) > _MOST_NAMED:
        parts.append("others")
    return f"{'is' if len(nodes) == 1 else 'are'} {'; '.join(parts)}"
