"""`/`, `/static` and `/sign-in`: the page, and the exchange of a link's code for a cookie.

Browsers find it below a path that nobody can guess, which is taken off before; see `access`. Links
within the page are relative, so that it also works below another path of a proxy. Its modules are
served as they are, below a version of all files that browsers may keep for good.
"""

import hashlib
import pathlib
import re
from typing import Final

import fastapi

from quintain.server.http import responses
from quintain.server.routes import parts as parts_lib
from quintain.server.security import access, sessions
from quintain.server.security import sign_in as sign_in_lib

DIRECTORY: Final = pathlib.Path(__file__).resolve().parents[1] / "page"

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
"""Media types by suffix. The system's tables may differ, and browsers check those of scripts."""

_READS: Final = ["GET", "HEAD"]
_VERSION: Final = re.compile(r"v-[0-9a-f]{16}/")
_ARRIVED: Final = "arrived"
"""Path to which `arriving.js` redirects."""


router = fastapi.APIRouter(include_in_schema=False, route_class=responses.CheckedRoute)
"""Addresses that need no token; `path_rules.is_open` lists them."""


@router.api_route("/", methods=_READS)
def open_page(parts: parts_lib.Given, request: fastapi.Request) -> fastapi.Response:
    """Returns the page to who is signed in, and to others how to sign in."""
    is_known = getattr(request.state, access.USER) is not None
    if is_known or parts.sign_in.find_session(request.scope) is not None:
        text = (DIRECTORY / "index.html").read_text("utf-8")
        text = text.replace('"static/', f'"static/{find_version(DIRECTORY)}')
        headers = {"Cache-Control": "no-cache", "Vary": "Cookie"}
        return fastapi.Response(text, headers=headers, media_type="text/html")
    is_page = getattr(request.state, access.IS_PAGE)
    has_arrived = request.url.query == _ARRIVED
    if is_page and not has_arrived and not sign_in_lib.is_same_site(request.scope):
        # Browsers leave the cookie away on the way from another site, and send it from here.
        return _answer_page("arriving.html", 200)
    answer = _answer_page("sign_in.html", responses.UNAUTHORIZED)
    answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


@router.api_route("/sign-in", methods=_READS)
def exchange(parts: parts_lib.Given, request: fastapi.Request, code: str = "") -> fastapi.Response:
    """Gives a cookie for the code of a link."""
    if request.method == "HEAD" or "prefetch" in request.headers.get("sec-purpose", ""):
        # Nobody has followed the link yet.
        return fastapi.Response(status_code=503)
    sign_in = parts.sign_in
    user = sign_in.codes.use(code) if getattr(request.state, access.IS_PAGE) else None
    if user is None:
        if sign_in.find_session(request.scope) is not None:
            return _redirect("./")
        return _answer_page("used_link.html", responses.FORBIDDEN)
    answer = _redirect("./")
    is_secure = "https" in (request.scope["scheme"], request.headers.get("x-forwarded-proto"))
    # Without a path it is good for the directory of this address, also behind a proxy that puts
    # another one before it.
    answer.headers["Set-Cookie"] = (
        f"{sign_in.sessions.cookie_name}={sign_in.sessions.begin(user)}; "
        f"Max-Age={sessions.LIFETIME_SECS}; HttpOnly; SameSite=Strict"
        + ("; Secure" if is_secure else "")
    )
    return answer


@router.api_route("/static/{name:path}", methods=_READS)
def get_file(name: str, request: fastapi.Request) -> fastapi.Response:
    """Returns a file of the page."""
    version = _VERSION.match(name)
    path = find_file(DIRECTORY, name[version.end() :] if version else name)
    if path is None:
        return responses.to_error("NotFoundError", f"There is no file {name[:200]!r}.", 404)
    content = path.read_bytes()
    headers = {
        "ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"',
        "Cache-Control": "max-age=31536000, immutable" if version else "no-cache",
    }
    known = request.headers.get("if-none-match", "").split(",")
    if headers["ETag"] in [each.strip().removeprefix("W/") for each in known]:
        return fastapi.Response(status_code=304, headers=headers)
    return fastapi.Response(content, headers=headers, media_type=_MEDIA_TYPES[path.suffix])


def _answer_page(name: str, status_code: int) -> fastapi.Response:
    return fastapi.Response((DIRECTORY / name).read_bytes(), status_code, media_type="text/html")


def find_version(directory: pathlib.Path) -> str:
    """Returns a folder's name that is another one once a file of the page has changed."""
    digest = hashlib.sha256()
    for path in sorted(each for each in directory.rglob("*") if each.is_file()):
        found = path.stat()
        digest.update(f"{path} {found.st_mtime_ns} {found.st_size}\n".encode())
    return f"v-{digest.hexdigest()[:16]}/"


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


def _redirect(location: str) -> fastapi.Response:
    return fastapi.Response(status_code=303, headers={"Location": location})
