"""Precision, recall and F1 of entities, with the rules of conlleval and seqeval.

Source:
    Nakayama, 2018, seqeval (https://github.com/chakki-works/seqeval), in its default mode.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

OUTSIDE: Final = "O"


class Entity(NamedTuple):
    """A run of labels that belong together."""

    kind: str
    """What follows the prefix of its labels, as `PER` in `B-PER`."""

    start: int
    """Place of its first word."""

    end: int
    """Place after its last word."""


def find_entities(labels: Sequence[str]) -> list[Entity]:
    """Returns the entities in the labels of a sentence.

    A label is a prefix (`B`, `I`, `E`, `S` or `O`) and the kind after a hyphen. `B` and `S` begin
    an entity, `E` and `S` end one, and so does another kind: an `I` that follows no entity of
    its kind begins one.

    Example:
        >>> find_entities(["B-PER", "I-PER", "O", "I-LOC"])
        [Entity(kind='PER', start=0, end=2), Entity(kind='LOC', start=3, end=4)]
    """
    found: list[Entity] = []
    before, kind_before, start = OUTSIDE, "", 0
    for place, label in enumerate([*labels, OUTSIDE]):
        prefix, kind = label[:1], label[1:].split("-", maxsplit=1)[-1] or "_"
        is_new_kind = kind != kind_before
        if before not in (OUTSIDE, ".") and (
            before in "ES" or prefix in ("B", "S", OUTSIDE) or is_new_kind
        ):
            found.append(Entity(kind_before, start, place))
        if prefix in ("B", "S") or (
            prefix not in (OUTSIDE, ".") and ((before in "ESO" and prefix in "EI") or is_new_kind)
        ):
            start = place
        before, kind_before = prefix, kind
    return found


def score(
    labels: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Compares the predicted labels of sentences with the right ones.

    Returns:
        `f1`, `precision` and `recall` of all entities, which are right if kind and place are, and
        `accuracy` of the labels of single words. 0 where there is nothing to divide by.
    """
    expected, found = (
        {
            (number, entity)
            for number, sentence in enumerate(sentences)
            for entity in find_entities(sentence)
        }
        for sentences in (labels, predictions)
    )
    pairs = [
        pair
        for right, guess in zip(labels, predictions, strict=True)
        for pair in zip(right, guess, strict=True)
    ]
    num_right = len(expected & found)
    precision = num_right / len(found) if found else 0.0
    recall = num_right / len(expected) if expected else 0.0
    both = precision + recall
    return {
        "f1": 2 * precision * recall / both if both else 0.0,
        "precision": precision,
        "recall": recall,
        "accuracy": sum(right == guess for right, guess in pairs) / len(pairs) if pairs else 0.0,
    }
