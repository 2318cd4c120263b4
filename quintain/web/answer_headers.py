"""Adds headers to all answers of an app, those to mistakes included."""

from collections.abc import Mapping

from starlette import types as asgi


class AnswerHeaders:
    """Stands before an app: adds headers to its answers where it has not set them itself."""

    def __init__(self, app: asgi.ASGIApp, *, headers: Mapping[str, str]) -> None:
        """Stores its settings.

        Args:
            app: What answers.
            headers: Values by their names.
        """
        self._app = app
        self._headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in headers.items()
        ]

    async def __call__(
        self,
        scope: asgi.Scope,
        receive: asgi.Receive,
        send: asgi.Send,
    ) -> None:
        """Handles a request as ASGI has it."""

        async def send_with_headers(message: asgi.Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                names = {name.lower() for name, _ in given}
                added = [pair for pair in self._headers if pair[0] not in names]
                message = {**message, "headers": given + added}
            await send(message)

        await self._app(scope, receive, send_with_headers)
