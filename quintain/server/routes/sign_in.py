"""`/master/sign-in` and `/master/sign-out`: links to the page, and the end of what they opened."""

import dataclasses

import fastapi

from quintain import errors
from quintain.records.views import master_status
from quintain.server.http import responses
from quintain.server.security import access
from quintain.server.security import sign_in as sign_in_lib


@dataclasses.dataclass
class Link:
    """Purpose of a sign-in link."""

    __pydantic_config__ = responses.STRICT_FIELDS

    stays: bool = False
    """Whether it is good until it is used, however long that takes; otherwise for ten minutes."""


def build_router(sign_in: sign_in_lib.SignIn) -> fastapi.APIRouter:
    """Returns the addresses below `/master` that are about signing in.

    Args:
        sign_in: What answers.
    """
    router = fastapi.APIRouter(tags=["master"])

    @router.post("/master/sign-in")
    def build_link(link: Link) -> fastapi.Response:
        """Makes a link that opens the page once. Browsers may not ask for it."""
        return responses.to_response(master_status.PageLink(sign_in.build_link(stays=link.stays)))

    @router.post("/master/sign-out")
    def sign_out(request: fastapi.Request) -> fastapi.Response:
        """Ends the session of the browser that asks."""
        session = getattr(request.state, access.SESSION, None)
        if session is None:
            raise errors.StateError("The request carries a token; only a browser can sign out.")
        sign_in.sessions.end(session)
        return responses.to_response({})

    @router.post("/master/sign-out-all")
    def sign_out_all() -> fastapi.Response:
        """Ends the sessions of all browsers."""
        sign_in.sessions.end_all()
        return responses.to_response({})

    return router
