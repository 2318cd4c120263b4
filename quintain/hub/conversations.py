"""Conversations: JSON Lines with roles, templates, and sequences that several of them share.

Shapes:
    R  rows
    S  positions
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from quintain import errors
from quintain.hub import bundled, configs, records
from quintain.settings import config_definitions as cfg

ANSWERER: Final = "assistant"
ROLES: Final = ("system", "user", ANSWERER)

Turn = Mapping[str, str]

TEMPLATES: Final[Mapping[str, tuple[str, str]]] = {
    "chatml": ("<|im_start|>{role}\n", "<|im_end|>\n"),
    "plain": ("{role}: ", "\n"),
}
"""Texts before and after the content of a turn, by the template's name."""


_OPEN_ROWS: Final = 64
"""Rows among which a place is looked for."""


@dataclasses.dataclass(frozen=True)
class Tokens:
    """A conversation in tokens."""

    ids: list[int]
    """The ids."""

    counts: list[bool]
    """Which of them are of an answer, whose prediction is learnt."""


def read(params: cfg.DataConfig) -> Iterator[tuple[str, list[Turn]]]:
    """Yields conversations with their places, whose turns have `role` and `content`.

    Raises:
        DataError: If a line is none, or has no answer; with file and line.
    """
    path = params.input_path
    is_bundled = isinstance(path, str) and path.startswith(bundled.PREFIX)
    rows = bundled.make_conversations(path) if is_bundled else records.read_data(params)
    for place, row in rows:
        yield place, check(place, row.get("messages"), needs_answer=True)


def check(place: str, turns: Any, *, needs_answer: bool, field: str = "messages") -> list[Turn]:
    """Returns the turns of a conversation, which a field holds.

    Raises:
        DataError: If they are none, or a role is not known, or an answer is missing.
    """
    if not isinstance(turns, list) or not turns:
        raise errors.DataError(
            f"{place}: {field}: got {errors.show(turns)}, expected a list such as "
            '[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}].'
        )
    for number, turn in enumerate(turns):
        where = f"{place}: {field}[{number}]"
        role = turn.get("role") if isinstance(turn, dict) else None
        if role not in ROLES:
            raise errors.DataError(
                f"{where}.role: got {errors.show(role)}, expected one of {', '.join(ROLES)}."
                f"{errors.suggest(str(role), ROLES)}"
            )
        if not isinstance(turn.get("content"), str):
            raise errors.DataError(
                f"{where}.content: got {errors.show(turn.get('content'))}, expected a text."
            )
    if needs_answer and not any(turn["role"] == ANSWERER for turn in turns):
        raise errors.DataError(
            f"{place}: {field}: no turn of {ANSWERER!r}, so that there is no answer to learn. Add "
            "one, or remove the line."
        )
    return turns


class Template:
    """Turns conversations into tokens.

    The parts of a turn are cut into tokens one by one, so that an answer that is learnt begins with
    the same tokens as one that is asked for.

    Args:
        config: Which template.
        tokenizer: A KerasHub tokenizer.
    """

    def __init__(self, config: configs.TemplateConfig, tokenizer: Any) -> None:
        own = config.before, config.after
        self._before, self._after = TEMPLATES.get(config.name, own)
        self.tokenizer = tokenizer
        start = getattr(tokenizer, "start_token_id", None)
        self.end_id = getattr(tokenizer, "end_token_id", None)
        self._start = [] if start is None or start == self.end_id else [int(start)]

    @property
    def stop(self) -> str:
        """Text after which an answer has ended."""
        return self._after

    def cut(self, text: str) -> list[int]:
        """Returns the tokens of a text."""
        return [int(one) for one in np.asarray(self.tokenizer(text)).reshape(-1)] if text else []

    def join(self, ids: Sequence[int]) -> str:
        """Returns the text of tokens."""
        return str(self.tokenizer.detokenize(np.asarray(ids, np.int32))) if len(ids) else ""

    def encode(self, turns: Sequence[Turn]) -> Tokens:
        """Returns the tokens of a conversation; the end of an answer is a part of it."""
        ids, counts = [*self._start], [False] * len(self._start)
        for turn in turns:
            before = self.cut(self._before.format(role=turn["role"]))
            said = [*self.cut(turn["content"]), *self.cut(self._after)]
            ids += before + said
            counts += [False] * len(before) + [turn["role"] == ANSWERER] * len(said)
        if self.end_id is not None:
            ids.append(int(self.end_id))
            counts.append(turns[-1]["role"] == ANSWERER)
        return Tokens(ids, counts)

    def encode_question(self, turns: Sequence[Turn]) -> list[int]:
        """Returns the tokens after which an answer follows."""
        ids = self.encode(turns).ids
        if self.end_id is not None:
            ids.pop()
        return ids + self.cut(self._before.format(role=ANSWERER))


def pack(
    conversations: Sequence[Tokens], length: int, pad_id: int, *, is_packed: bool
) -> dict[str, np.ndarray]:
    """Puts conversations into rows, the next one where it fits first, each as a whole.

    Longer ones are cut at the end.

    Args:
        conversations: In their order.
        length: S.
        pad_id: The token of empty places.
        is_packed: Whether conversations share rows.

    Returns:
        `token_ids` and `label` `[R, S]` int32, where a label is the token that follows; `weight`
        `[R, S]` float32, 1 where it is of an answer; `documents` `[R, S]` int32, the number of the
        conversation in its row from 1, and 0 where there is none.
    """
    rows: list[list[Tokens]] = []
    free: list[int] = []
    open_rows: list[int] = []
    for tokens in conversations:
        size = min(len(tokens.ids) - 1, length)
        row = next((one for one in open_rows if free[one] >= size), None) if is_packed else None
        if row is None:
            row = len(rows)
            rows.append([])
            free.append(length)
            open_rows = [*open_rows[-_OPEN_ROWS + 1 :], row]
        rows[row].append(tokens)
        free[row] -= size
    packed = {
        "token_ids": np.full([len(rows), length], pad_id, np.int32),
        "label": np.full([len(rows), length], pad_id, np.int32),
        "weight": np.zeros([len(rows), length], np.float32),
        "documents": np.zeros([len(rows), length], np.int32),
    }
    for row, members in enumerate(rows):
        start = 0
        for number, tokens in enumerate(members, start=1):
            size = min(len(tokens.ids) - 1, length)
            place = (row, slice(start, start + size))
            packed["token_ids"][place] = tokens.ids[:size]
            packed["label"][place] = tokens.ids[1 : size + 1]
            packed["weight"][place] = tokens.counts[1 : size + 1]
            packed["documents"][place] = number
            start += size
    return packed
