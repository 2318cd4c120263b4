"""English paragraphs on made people, with questions in the format of SQuAD 2.0."""

import json
from typing import Any

from bundled_corpus import deterministic_draw, names_and_places

Draw = deterministic_draw.Draw

_TRADES = [
    "baker",
    "doctor",
    "teacher",
    "painter",
    "farmer",
    "judge",
    "sailor",
    "tailor",
    "writer",
    "miller",
]
_FACTS = (
    ("born", "{S} was born in {X} .", "Where was {S} born ?", "place"),
    ("work", "{S} worked as a {X} .", "What did {S} work as ?", "trade"),
    ("moved", "{S} moved to the coast in {X} .", "When did {S} move ?", "year"),
    ("married", "{S} married {X} .", "Whom did {S} marry ?", "person"),
    ("died", "{S} died in {X} .", "Where did {S} die ?", "place"),
    ("school", "{S} went to school in {X} .", "Where did {S} go to school ?", "place"),
    ("price", "{S} bought a house for {X} crowns .", "How much did the house of {S} cost ?", "sum"),
)
_FILLERS = (
    "The winters were long in those days .",
    "Little else is known of this time .",
    "Letters of the family are kept in the library .",
)


def _make_value(draw: Draw, kind: str, *, is_held_out: bool) -> str:
    if kind == "place":
        return " ".join(names_and_places.make_place(draw, is_held_out=is_held_out))
    if kind == "person":
        return " ".join(names_and_places.make_person(draw, is_held_out=is_held_out))
    if kind == "trade":
        return draw.one(names_and_places.TRADES)
    return str(draw.between(1700, 2030) if kind == "year" else draw.between(2, 90) * 100)


def _make_paragraph(draw: Draw, number: str, *, is_held_out: bool) -> dict[str, Any]:
    subject = names_and_places.make_person(draw, is_held_out=is_held_out)[0]
    left = list(_FACTS)
    text, questions, found = "", [], []
    for _ in range(3):
        fact = left.pop(draw.below(len(left)))
        found.append(fact)
        if draw.chance(0.2):
            text += draw.one(_FILLERS) + " "
        value = _make_value(draw, fact[3], is_held_out=is_held_out)
        before, after = fact[1].replace("{S}", subject).split("{X}")
        questions.append((fact, value, len(text) + len(before)))
        text += before + value + after + " "
    entries: list[dict[str, Any]] = []
    for fact, value, start in questions:
        answers = [{"text": value, "answer_start": start}]
        entries.append({"answers": answers, "is_impossible": False, "question": fact[2]})
    entries.append({"answers": [], "is_impossible": True, "question": left[0][2]})
    for place, entry in enumerate(entries):
        entry |= {"id": f"{number}-{place}", "question": entry["question"].replace("{S}", subject)}
    return {"context": text.strip(), "qas": entries}


def make_splits() -> dict[str, str]:
    """Returns the JSON of each split; validation and test have other names than training."""
    sizes = {"train": 2_500, "validation": 90, "test": 90}
    return {
        split: json.dumps(
            {
                "version": "v2.0",
                "data": [
                    {
                        "title": "People",
                        "paragraphs": [
                            _make_paragraph(draw, f"{split}-{row}", is_held_out=split != "train")
                            for row in range(size)
                        ],
                    }
                ],
            },
            indent=1,
        )
        for (split, size), draw in zip(sizes.items(), map(Draw, range(10, 13)), strict=True)
    }
