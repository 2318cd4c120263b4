#!/usr/bin/env python
"""Writes `docs/reference/inventory.md`: what the Model Garden offers, and what of it is here.

    PYTHONPATH=. scripts/inventory.py

The facts are in `tests/contracts/reference_names.txt`, which `reference_inventory.py` makes. What
is not offered is listed in `quintain.reference.reference_names.REFUSED`; single arguments, defaults
and attributes that differ, in `tests/contracts/reference_differences.txt`; what does something else
with the same names, in `tests/contracts/reference_behaviour.txt`, each with its test.
"""

import collections
import pathlib
from collections.abc import Iterable, Iterator, Mapping

import inventory_facts
from quintain.reference import reference_names

_ROOT = pathlib.Path(__file__).parents[1]
FACTS = _ROOT / "tests/contracts/reference_names.txt"
DIFFERENCES = _ROOT / "tests/contracts/reference_differences.txt"
BEHAVIOUR = _ROOT / "tests/contracts/reference_behaviour.txt"
PAGE = _ROOT / "docs/reference/inventory.md"

_HEAD = """# Inventory of names

Every module, class, function, argument and attribute of the Model Garden (`official`, `orbit`) that
a program can name, and what of it is here: a fact is a module, a name of it, the arguments of
something that is called with their order and defaults, a field of a config with its default, or an
attribute of an object. `official.` becomes `quintain.`, `orbit` becomes `quintain.orbit`,
`tensorflow_models` becomes `quintain`. Names with a leading underscore are not counted.

This page is written by `PYTHONPATH=. scripts/inventory.py`, and held by
`tests/contracts/test_inventory.py`: nothing is missing.

"""


def read_differences() -> dict[str, str]:
    """Returns the reasons of single differences, by the paths of their facts."""
    lines = DIFFERENCES.read_text(encoding="utf-8").splitlines()
    return dict(line.split("\t") for line in lines if line)


def find_reason(path: str, differences: Mapping[str, str]) -> str | None:
    """Returns why a fact is not so here, and what to use instead."""
    return reference_names.find_refusal(path) or differences.get(path)


def find_missing(facts: Iterable[inventory_facts.Fact]) -> Iterator[str]:
    """Yields the facts that are not so here, and have no reason."""
    differences = read_differences()
    for fact in facts:
        if find_reason(fact.path, differences) is None:
            difference = inventory_facts.find_difference(fact)
            if difference is not None:
                yield f"{fact.path}: {difference}"


def find_settled(facts: Iterable[inventory_facts.Fact]) -> Iterator[str]:
    """Yields the rows that no fact needs any more."""
    by_path = collections.defaultdict(list)
    for fact in facts:
        by_path[fact.path].append(fact)
    for path in read_differences():
        found = [inventory_facts.find_difference(fact) for fact in by_path[path]]
        if not any(found):
            yield path


def group(module: str) -> str:
    """Returns the row of the table that a module counts in."""
    parts = module.split(".")
    return ".".join(parts[: 3 if parts[:2] == ["nlp", "modeling"] else 2])


def render(facts: Iterable[inventory_facts.Fact]) -> str:
    """Returns the page."""
    differences = read_differences()
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for fact in facts:
        refused = find_reason(fact.path, differences) is not None
        missing = not refused and inventory_facts.find_difference(fact) is not None
        state = "refused" if refused else "missing" if missing else "present"
        counts[group(fact.module)][state] += 1
    states = ("present", "refused", "missing")
    total = sum(counts.values(), collections.Counter())
    rows = [(f"`{name}`", count) for name, count in counts.items()] + [("all", total)]
    table = [
        f"| {name} | {' | '.join(str(count[state]) for state in states)} |" for name, count in rows
    ]
    refused = [f"| `{path}` | {why} |" for path, why in reference_names.REFUSED.items()]
    different = [f"| `{path}` | {why} |" for path, why in sorted(differences.items())]
    behaviour = [
        f"| {what} | {why} | `{test}` |"
        for what, why, test in (
            line.split("\t") for line in BEHAVIOUR.read_text(encoding="utf-8").splitlines()
        )
    ]
    return "\n".join(
        [
            f"{_HEAD}| module | present | refused | missing |",
            "|---|---|---|---|",
            *table,
            "",
            "## Refused",
            "",
            "Using one of these, or anything below it, is an error with this reason; importing it "
            "only logs that.",
            "",
            "| name | why, and what to use instead |",
            "|---|---|",
            *refused,
            "",
            "## Different",
            "",
            "Counted as refused above: the name is there, and this of it is other.",
            "",
            "| name | what is here, and why |",
            "|---|---|",
            *different,
            "",
            "The names are the same, and what they do is other:",
            "",
            "| what | what happens here, and why | proved by |",
            "|---|---|---|",
            *behaviour,
            "",
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(render(list(inventory_facts.read_facts(FACTS))), encoding="utf-8")
