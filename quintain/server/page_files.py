"""Serves the files of the page, and exchanges the code of a link for a cookie.

Everything is found below a path that nobody can guess; see `sessions`. Links within the page are
relative, so that it also works below another path of a proxy.
"""

import hashlib
import pathlib
import secrets
from collections.abc import Mapping
from typing import Final

import anyio
import fastapi
from starlette import datastructures, requests, types

from quintain.server.http import page_modules, responses
from quintain.server.security import sessions
from quintain.server.security import sign_in as sign_in_lib

DIRECTORY: Final = pathlib.Path(__file__).resolve().parent / "page"

_MEDIA_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".md": "text/plain",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".woff2": "font/woff2",
}
"""What is served. The tables of the system may say otherwise, and browsers run no other scripts."""

_STATIC: Final = "/static/"
_ARRIVED: Final = b"arrived"
"""Where `arriving.js` leads to."""


class Page:
    """Stands before an app: answers for the page itself, and hands all else on."""

    def __init__(
        self,
        app: types.ASGIApp,
        *,
        sign_in: sign_in_lib.SignIn,
        directory: pathlib.Path = DIRECTORY,
    ) -> None:
        """Stores its settings.

        Args:
            app: What answers everything else.
            sign_in: Knows codes and cookies.
            directory: Where the files are.
        """
        self._app = app
        self._sign_in = sign_in
        self._directory = directory.resolve()
        self._joined: tuple[int, bytes] | None = None

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        """Handles a request as ASGI has it."""
        app = self._app
        if scope["type"] == "http":
            given, slash, rest = scope["path"][1:].partition("/")
            page_path = self._sign_in.sessions.page_path
            is_page = secrets.compare_digest(given.encode("utf-8", "replace"), page_path.encode())
            if is_page:
                path = slash + rest
                scope = {**scope, "path": path, "raw_path": path.encode("utf-8", "replace")}
            if scope["method"] in ("GET", "HEAD"):
                app = await self._find_answer(scope, is_page=is_page) or app
        await app(scope, receive, send)

    async def _find_answer(self, scope: types.Scope, *, is_page: bool) -> types.ASGIApp | None:
        path = scope["path"]
        if path.startswith(_STATIC):
            return await self._answer_file(scope, path.removeprefix(_STATIC))
        if path == "/sign-in":
            return await self._exchange(scope, is_page=is_page)
        if path == "" and is_page:
            # What is relative to the page needs the slash.
            return _redirect(f"{self._sign_in.sessions.page_path}/")
        if path == "/":
            return await self._open(scope, is_page=is_page)
        return None

    async def _open(self, scope: types.Scope, *, is_page: bool) -> types.ASGIApp:
        if self._sign_in.find_session(scope) is not None:
            if self._sign_in.is_other_user(scope):
                return await self._answer_page("other_user.html", responses.FORBIDDEN)
            answer = await self._answer_file(scope, "index.html")
            answer.headers["Vary"] = "Cookie"
            return answer
        has_arrived = scope["query_string"] == _ARRIVED
        if is_page and not has_arrived and not sign_in_lib.is_same_site(scope):
            # Browsers leave the cookie away on the way from another site, and send it from here.
            return await self._answer_page("arriving.html", 200)
        answer = await self._answer_page("sign_in.html", 401)
        answer.headers["WWW-Authenticate"] = "Bearer"
        return answer

    async def _exchange(self, scope: types.Scope, *, is_page: bool) -> types.ASGIApp:
        request = requests.Request(scope)
        if scope["method"] == "HEAD" or "prefetch" in request.headers.get("sec-purpose", ""):
            # Nobody has followed the link yet.
            return fastapi.Response(status_code=503)
        if self._sign_in.is_other_user(scope):
            return await self._answer_page("other_user.html", responses.FORBIDDEN)
        is_good = is_page and self._sign_in.codes.use(request.query_params.get("code", ""))
        if not is_good:
            if self._sign_in.find_session(scope) is not None:
                return _redirect("./")
            return await self._answer_page("used_link.html", responses.FORBIDDEN)
        answer = _redirect("./")
        proxy_scheme = request.headers.get("x-forwarded-proto")
        is_secure = "https" in (scope["scheme"], proxy_scheme)
        # Without a path it is good for the directory of this address, also behind a proxy that
        # puts another one before it.
        answer.headers["Set-Cookie"] = (
            f"{self._sign_in.sessions.cookie_name}={self._sign_in.sessions.begin()}; "
            f"Max-Age={sessions.LIFETIME_SECS}; HttpOnly; SameSite=Strict"
            + ("; Secure" if is_secure else "")
        )
        return answer

    def _join(self) -> bytes:
        """Returns all modules as one, which is made anew when one of them has changed."""
        changed = max(path.stat().st_mtime_ns for path in self._directory.glob("*.js"))
        if self._joined is None or self._joined[0] != changed:
            self._joined = changed, page_modules.join(self._directory).encode()
        return self._joined[1]

    async def _answer_page(self, name: str, status_code: int) -> fastapi.Response:
        content = await anyio.Path(self._directory / name).read_bytes()
        return fastapi.Response(content, status_code, media_type="text/html")

    async def _answer_file(self, scope: types.Scope, name: str) -> fastapi.Response:
        path = find_file(self._directory, name)
        if path is None:
            return responses.to_error("NotFoundError", f"There is no file {name[:200]!r}.", 404)
        content = await anyio.Path(path).read_bytes()
        if name == page_modules.FIRST:
            content = await anyio.to_thread.run_sync(self._join)
        elif path.suffix == ".js" and path.parent.name != page_modules.OTHERS:
            content = page_modules.leave_out_comments(content.decode()).encode()
        headers = {
            "ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"',
            "Cache-Control": "no-cache",
        }
        if _is_known(datastructures.Headers(scope=scope), headers):
            return fastapi.Response(status_code=304, headers=headers)
        return fastapi.Response(content, headers=headers, media_type=_MEDIA_TYPES[path.suffix])


def find_file(directory: pathlib.Path, name: str) -> pathlib.Path | None:
    """Returns a file of the page, or None if there is none of this name.

    Args:
        directory: Where the files are; no link leads there.
        name: Path relative to it, as a stranger asks for it.
    """
    path = directory / name
    if path.suffix not in _MEDIA_TYPES:
        return None
    try:
        # No name leads out of the directory, nor is there a second one for a file.
        is_own = str(path.resolve()) == f"{directory}/{name}" and path.is_file()
    except (OSError, ValueError):
        return None
    return path if is_own else None


def _is_known(asked: Mapping[str, str], headers: Mapping[str, str]) -> bool:
    known = [one.strip().removeprefix("W/") for one in asked.get("if-none-match", "").split(",")]
    return headers["ETag"] in known


def _redirect(location: str) -> fastapi.Response:
    return fastapi.Response(status_code=303, headers={"Location": location})
