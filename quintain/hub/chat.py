"""Answers of a causal model in a conversation, as a whole or piece by piece."""

import dataclasses
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from quintain.hub import configs, conversations, generation

_INCOMPLETE = "\ufffd"
"""Stands at the end of a text whose last character has further bytes to come."""


@dataclasses.dataclass(frozen=True)
class Piece:
    """Part of an answer."""

    text: str
    """Text that was added."""

    finish_reason: str | None = None
    """In the last piece, `stop` or `length`."""

    num_tokens: int = 0
    """In the last piece, tokens of the whole answer."""


class Chat:
    """A model with its template.

    Args:
        model: A `CausalLM` of KerasHub.
        template: How conversations are written.
        settings: How answers are written, unless a call says something else.
        max_length: Most tokens of a conversation with its answer.
    """

    def __init__(
        self,
        model: Any,
        template: conversations.Template,
        settings: configs.GenerationConfig,
        max_length: int,
    ) -> None:
        self.template = template
        self.settings = settings
        self._generator = generation.Generator(model, _find_ends(template), max_length)
        self._lock = threading.Lock()

    def answer(
        self,
        turns: Sequence[conversations.Turn],
        settings: configs.GenerationConfig | None = None,
        seed: int = 0,
    ) -> Piece:
        """Returns the whole answer to a conversation.

        Raises:
            DataError: If the conversation leaves no place for an answer.
        """
        settings = settings or self.settings
        if settings.num_beams > 1:
            with self._lock:
                found = self._generator.search(self.template.encode_question(turns), settings)
            text, is_stopped = self._cut(self.template.join(found.ids), settings)
            reason = "stop" if is_stopped else found.finish_reason
            return Piece(text, reason, len(found.ids))
        pieces = list(self.stream(turns, settings, seed))
        return dataclasses.replace(pieces[-1], text="".join(piece.text for piece in pieces))

    def stream(
        self,
        turns: Sequence[conversations.Turn],
        settings: configs.GenerationConfig | None = None,
        seed: int = 0,
    ) -> Iterator[Piece]:
        """Yields an answer as it is written; the last piece says why it ended.

        Raises:
            DataError: If the conversation leaves no place for an answer.
        """
        settings = settings or self.settings
        prompt = self.template.encode_question(turns)
        ids: list[int] = []
        sent, reason = "", "length"
        stops = self._list_stops(settings)
        tokens = self._generator.stream(prompt, settings, seed)
        while True:
            with self._lock:  # One token at a time, of whoever waits.
                token = next(tokens, _END)
            if token is _END or token is None:
                reason = "length" if token is _END else "stop"
                break
            ids.append(token)
            text, is_stopped = self._cut(self.template.join(ids), settings)
            if is_stopped:
                reason = "stop"
                break
            ready = text[: len(text) - _count_held(text, stops)]
            if len(ready) > len(sent):
                yield Piece(ready[len(sent) :])
                sent = ready
        text, _ = self._cut(self.template.join(ids), settings)
        yield Piece(text[len(sent) :], reason, len(ids))

    def _list_stops(self, settings: configs.GenerationConfig) -> list[str]:
        return [one for one in (self.template.stop, *settings.stop) if one]

    def _cut(self, text: str, settings: configs.GenerationConfig) -> tuple[str, bool]:
        """Returns a text up to the first stop, and whether there is one."""
        places = [text.find(stop) for stop in self._list_stops(settings)]
        places = [place for place in places if place >= 0]
        return (text[: min(places)], True) if places else (text, False)


_END: Any = object()


def _count_held(text: str, stops: Sequence[str]) -> int:
    """Returns how many characters at the end may yet become a stop, or another character."""
    held = len(text) - len(text.rstrip(_INCOMPLETE))
    for stop in stops:
        sizes = (size for size in range(1, len(stop)) if text.endswith(stop[:size]))
        held = max(held, *sizes, 0)
    return held


def _find_ends(template: conversations.Template) -> list[int]:
    """Returns the tokens that end an answer: the tokenizer's, and that of the template's end."""
    ends = [] if template.end_id is None else [int(template.end_id)]
    first = template.cut(template.stop)[:1]
    return ends + [
        one for one in first if template.join([one]).strip() in ("", template.stop.strip())
    ]
