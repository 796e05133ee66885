"""The studio behind HTTP: its page, and what the page asks.

Requests pass `mercer.app.web.Guard` first (host, origin, token, size). The token comes in the URL that is
printed, and is then kept in a cookie that scripts cannot read and other sites cannot send. Files of the page
are read once, at the start: no path from a client is ever opened.
"""

from __future__ import annotations

import contextlib
import hmac
import threading
from collections.abc import AsyncIterator
from http.cookies import CookieError, SimpleCookie
from importlib import resources
from typing import Any, TypeVar
from urllib.parse import parse_qs

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool

from mercer.app import web
from mercer.app.studio.playground import FAMILIES, Asked, Playground

__all__ = ["application"]

Body = TypeVar("Body", bound=BaseModel)

PAGE = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
COOKIE = "mercer_studio"
CLOSED = "The studio was opened elsewhere, or again: use the address that `mercer studio` printed last."


def application(token: str, port: int = 0, warm: bool = True) -> Any:
    """The ASGI application of a studio.

    token: without it nothing is answered
    port: where it will be, so that two studios do not share a cookie
    warm: compile what the playground needs at the start, in the background
    """
    playground, stop = Playground(), threading.Event()

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if warm:
            threading.Thread(target=playground.warm_up, args=(stop,), daemon=True).start()
        yield
        stop.set()

    app = FastAPI(title="Mercer studio", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    web.answer_errors(app, _known)
    cookie = f"{COOKIE}_{port}"
    _page(app, token, cookie)
    _playground(app, playground)
    guard = web.Guard(app, token=token, free=lambda path: path == "/", seconds=600.0, policy=PAGE)
    return _Cookie(guard, cookie)


class _Cookie:
    """Hands the token that came in the cookie, or in the address, to the guard as a header."""

    def __init__(self, app: web.Application, name: str):
        self.app, self.name = app, name

    async def __call__(self, scope: Any, receive: web.Receive, send: web.Send) -> None:
        if scope["type"] == "http":
            headers = [(k, v) for k, v in scope["headers"] if k != b"x-mercer-token"]
            if token := self._token(scope):
                headers.append((b"x-mercer-token", token.encode("latin-1", "replace")))
            scope = scope | {"headers": headers}
        await self.app(scope, receive, send)

    def _token(self, scope: Any) -> str | None:
        told = dict(scope["headers"])
        if header := told.get(b"x-mercer-token"):
            return header.decode("latin-1")
        if scope["path"] == "/" and (asked := parse_qs(scope["query_string"].decode("latin-1")).get("token")):
            return asked[0]
        try:
            kept = SimpleCookie(told.get(b"cookie", b"").decode("latin-1")).get(self.name)
        except CookieError:
            return None
        return None if kept is None else kept.value


def _page(app: FastAPI, token: str, cookie: str) -> None:
    folder = resources.files("mercer.app.studio") / "static"
    files = {file.name: file.read_bytes() for file in folder.iterdir() if file.name.count(".") == 1}

    def sent(name: str) -> Response:
        return Response(files[name], media_type=KINDS[name[name.index(".") :]])

    @app.get("/")
    def index(request: Request) -> Response:
        given = request.headers.get("x-mercer-token", "").encode("utf-8", "replace")
        if not hmac.compare_digest(given, token.encode()):
            return Response(CLOSED, 401, media_type="text/plain")
        if "token" not in request.query_params:
            return sent("index.html")
        response = RedirectResponse("/", 303)
        response.set_cookie(cookie, token, httponly=True, samesite="strict", path="/")
        return response

    @app.get("/static/{name}")
    def file(name: str) -> Response:
        if name not in files:
            raise web.WebError(404, "not_found", "there is no such file.")
        return sent(name)


def _playground(app: FastAPI, playground: Playground) -> None:
    @app.get("/api/playground/families")
    def families() -> Response:
        return answered([{"name": n, "formula": f, "words": w} for n, f, w in FAMILIES])

    @app.post("/api/playground/answer")
    async def answer(request: Request) -> Response:
        return answered(await run_in_threadpool(playground.answer, await body(request, Asked)))

    @app.post("/api/playground/learn")
    async def learn(request: Request) -> Response:
        return answered(await run_in_threadpool(playground.learn, await body(request, Asked)))

    @app.post("/api/playground/words")
    async def words(request: Request) -> Response:
        return answered(await run_in_threadpool(playground.words, await body(request, Asked)))


def answered(value: Any, status: int = 200) -> Response:
    return Response(web.dumps(value), status, media_type="application/json")


async def body(request: Request, kind: type[Body]) -> Body:
    """What the body of a request says, checked."""
    given = await web.json_body(request)
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the body"
        raise web.WebError(422, "invalid", f"{where}: {first['msg']}.") from None


def _known(error: Exception) -> web.WebError | None:
    """What a person can mend: a formula that cannot be read, data that a model refuses."""
    if isinstance(error, ValueError | TypeError | ArithmeticError):
        return web.WebError(422, "not_possible", " ".join(str(error).split()))
    return None
