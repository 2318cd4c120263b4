"""The route of conversations, in the shape that clients of OpenAI speak."""

import json
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Final

import fastapi
from fastapi import concurrency, responses

from quintain import errors
from quintain.hub import chat, configs, conversations
from quintain.web import request_checks

_PLACE: Final = "request"
_SETTINGS: Final = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "max_tokens": "max_new_tokens",
    "max_completion_tokens": "max_new_tokens",
    "stop": "stop",
}
"""Fields of a request by those of `GenerationConfig`."""

_OTHERS: Final = frozenset({"messages", "model", "stream", "stream_options", "seed", "n", "user"})


def add_routes(
    app: fastapi.FastAPI,
    answerer: chat.Chat,
    *,
    name: str,
    max_requests: int,
    timeout_secs: float,
    observe: Callable[[int, float], None],
) -> None:
    """Adds `POST /v1/chat/completions`, and `GET /v1/models` for clients that ask for names.

    Args:
        app: The server.
        answerer: The model.
        name: Name of the model.
        max_requests: Most conversations that are answered at a time; more get the status 503.
        timeout_secs: How long an answer may take.
        observe: Takes 1 and the seconds of each answer.
    """
    num_running = 0

    @app.get("/v1/models")
    async def list_models() -> dict[str, Any]:
        """Returns the one model there is."""
        return {"object": "list", "data": [{"id": name, "object": "model", "owned_by": "quintain"}]}

    @app.post("/v1/chat/completions")
    async def complete(request: fastapi.Request) -> Any:
        """Answers a conversation, at once or piece by piece (server-sent events)."""
        nonlocal num_running
        began = time.monotonic()
        try:
            body = request_checks.take_json(request.scope)
            turns, settings = read(body, answerer.settings)
            if num_running >= max_requests:
                message = f"{num_running} conversations are being answered; try again later."
                return _refuse(503, message, "server_error")
            head = {
                "id": f"chatcmpl-{uuid.uuid4().hex}",
                "created": int(time.time()),
                "model": name,
            }
            num_prompt = len(answerer.template.encode_question(turns))
            pieces = _answer(answerer, turns, settings, _read_seed(body), timeout_secs)
            num_running += 1
            try:
                first = await concurrency.run_in_threadpool(next, pieces)  # What is wrong shows.
            except BaseException:
                num_running -= 1
                raise
        except errors.QuintainError as error:
            return _refuse(400, str(error), "invalid_request_error")

        async def run() -> AsyncIterator[chat.Piece]:
            nonlocal num_running
            try:
                yield first
                async for piece in concurrency.iterate_in_threadpool(pieces):
                    yield piece
            finally:
                num_running -= 1
                observe(1, time.monotonic() - began)

        if body.get("stream"):
            wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
            events = _write_events(run(), head, num_prompt if wants_usage else None)
            return responses.StreamingResponse(events, media_type="text/event-stream")
        try:
            found = [piece async for piece in run()]
        except TimeoutError as error:
            return _refuse(504, str(error), "server_error")
        text = "".join(one.text for one in found)
        answer = {"role": conversations.ANSWERER, "content": text}
        reason = found[-1].finish_reason
        return {
            **head,
            "object": "chat.completion",
            "choices": [{"index": 0, "message": answer, "finish_reason": reason}],
            "usage": _count(num_prompt, found[-1].num_tokens),
        }


async def _write_events(
    pieces: AsyncIterator[chat.Piece], head: Mapping[str, Any], num_prompt: int | None
) -> AsyncIterator[str]:
    def event(choices: list[dict[str, Any]], **more: Any) -> str:
        chunk = {**head, "object": "chat.completion.chunk", "choices": choices, **more}
        return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"

    def choice(delta: dict[str, str], reason: str | None = None) -> list[dict[str, Any]]:
        return [{"index": 0, "delta": delta, "finish_reason": reason}]

    yield event(choice({"role": conversations.ANSWERER, "content": ""}))
    num_tokens = 0
    try:
        async for piece in pieces:
            num_tokens = piece.num_tokens
            if piece.text:
                yield event(choice({"content": piece.text}))
            if piece.finish_reason:
                yield event(choice({}, piece.finish_reason))
    except TimeoutError as error:
        yield f"data: {json.dumps(_describe(str(error), 'server_error'))}\n\n"
    if num_prompt is not None:
        yield event([], usage=_count(num_prompt, num_tokens))
    yield "data: [DONE]\n\n"


def _answer(
    answerer: chat.Chat,
    turns: list[conversations.Turn],
    settings: configs.GenerationConfig,
    seed: int,
    timeout_secs: float,
) -> Iterator[chat.Piece]:
    """Yields the pieces of an answer; of beams it is one.

    Raises:
        DataError: If the conversation leaves no place for an answer.
        TimeoutError: If it takes too long.
    """
    if settings.num_beams > 1:
        yield answerer.answer(turns, settings)
        return
    end = time.monotonic() + timeout_secs
    for piece in answerer.stream(turns, settings, seed):
        yield piece
        if time.monotonic() > end and piece.finish_reason is None:
            raise TimeoutError(f"no whole answer within {timeout_secs:g} s; ask for fewer tokens.")


def read(
    body: Any, defaults: configs.GenerationConfig
) -> tuple[list[conversations.Turn], configs.GenerationConfig]:
    """Returns the turns of a request, and how they are to be answered.

    Raises:
        DataError: If a turn is wrong, or a field is not known or asks for what there is not.
        ConfigError: If a number is out of its range.
    """
    if not isinstance(body, dict):
        raise errors.DataError(
            f'{_PLACE}: got {errors.show(body)}, expected an object such as {{"messages": [...]}}.'
        )
    known = [*_SETTINGS, *_OTHERS]
    for field, value in body.items():
        if field not in known and value:
            raise errors.DataError(
                f"{field}: got {errors.show(value)}, which this server does not know. Leave it out."
                f"{errors.suggest(field, known)}"
            )
    if body.get("n") not in (None, 1):
        raise errors.DataError(f"n: got {errors.show(body['n'])}, expected 1: one answer.")
    options = body.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise errors.DataError(f"stream_options: got {errors.show(options)}, expected an object.")
    turns = body.get("messages")
    if isinstance(turns, list):
        turns = [_join_parts(turn) for turn in turns]
    checked = conversations.check(_PLACE, turns, needs_answer=False)
    given = {ours: body[field] for field, ours in _SETTINGS.items() if body.get(field) is not None}
    if isinstance(given.get("stop"), str):
        given["stop"] = [given["stop"]]
    if given.get("temperature"):
        given.setdefault("num_beams", 1)
    _read_seed(body)
    settings = defaults.replace(**given)
    settings.validate()
    return checked, settings


def _join_parts(turn: Any) -> Any:
    """Returns a turn with its content as one text, which some clients send in parts."""
    parts = turn.get("content") if isinstance(turn, dict) else None
    if isinstance(parts, list) and all(
        isinstance(part, dict) and isinstance(part.get("text"), str) for part in parts
    ):
        return {**turn, "content": "".join(part["text"] for part in parts)}
    return turn


def _read_seed(body: Mapping[str, Any]) -> int:
    seed = body.get("seed")
    if seed is None:
        return uuid.uuid4().int  # Each request draws anew.
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise errors.DataError(f"seed: got {errors.show(seed)}, expected a whole number.")
    return abs(seed)


def _count(num_prompt: int, num_tokens: int) -> dict[str, int]:
    return {
        "prompt_tokens": num_prompt,
        "completion_tokens": num_tokens,
        "total_tokens": num_prompt + num_tokens,
    }


def _describe(message: str, kind: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _refuse(status_code: int, message: str, kind: str) -> responses.JSONResponse:
    headers = {"Retry-After": "1"} if status_code == 503 else None
    return responses.JSONResponse(_describe(message, kind), status_code, headers)
