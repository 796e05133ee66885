"""The studio behind HTTP: its page, and what the page asks.

Requests pass `mercer.app.web.Guard` first (host, origin, token, size). The token comes in the URL that is
printed, and is then kept in a cookie that scripts cannot read and other sites cannot send. Files of the page
are read once, at the start, and those of tables and runs have names that were made here: no path from a
client is ever opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import re
import threading
import time
from collections.abc import AsyncIterator
from http.cookies import CookieError, SimpleCookie
from importlib import resources
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool

from mercer.app import web
from mercer.app.studio.desk import Desk, Order
from mercer.app.studio.playground import FAMILIES, Asked, Playground

__all__ = ["application"]

Body = TypeVar("Body", bound=BaseModel)

PAGE = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# a report has its script within it; it can show itself, and nothing else
REPORT = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline' blob:; "
    "worker-src blob:; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'"
)
UPLOAD = 200 * web.MEGABYTE  # the largest file, unless another limit is given
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
COOKIE = "mercer_studio"
CLOSED = "The studio was opened elsewhere, or again: use the address that `mercer studio` printed last."


def application(token: str, desk: Desk, port: int = 0, upload_bytes: int = UPLOAD, warm: bool = True) -> Any:
    """The ASGI application of a studio.

    token: without it nothing is answered
    desk: its tables and runs, which are gone when the application ends
    upload_bytes: the largest table that may be brought
    port: where it will be, so that two studios do not share a cookie
    warm: compile what the playground needs at the start, and hire a process ahead, in the background
    """
    playground, stop = Playground(), threading.Event()

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if warm:
            desk.hire_ahead()
            threading.Thread(target=playground.warm_up, args=(stop,), daemon=True).start()
        yield
        stop.set()
        await run_in_threadpool(desk.close)

    app = FastAPI(title="Mercer studio", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    web.answer_errors(app, _known)
    cookie = f"{COOKIE}_{port}"
    _page(app, token, cookie)
    _playground(app, playground)
    _tables(app, desk, upload_bytes)
    _runs(app, desk)
    guard = web.Guard(
        app, token=token, free=lambda path: path == "/", uploads={"/api/tables": upload_bytes}, seconds=600.0,
        policy=PAGE,
    )  # fmt: skip
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


def _tables(app: FastAPI, desk: Desk, upload_bytes: int) -> None:
    @app.get("/api/tables")
    def tables() -> Response:
        return answered({"limit": upload_bytes, "tables": [table.told() for table in desk.tables.values()]})

    @app.post("/api/tables")
    async def bring(request: Request) -> Response:
        table = desk.place(unquote(request.headers.get("x-file-name", ""))[:1000])
        try:
            with table.path.open("wb") as file:
                async for piece in request.stream():
                    await run_in_threadpool(file.write, piece)
        except BaseException:
            table.path.unlink(missing_ok=True)
            raise
        return answered((await run_in_threadpool(desk.look, table)).told(), 201)

    @app.delete("/api/tables/{id_}")
    def remove(id_: str) -> Response:
        with _found("table"):
            desk.remove_table(id_)
        return answered({})


def _runs(app: FastAPI, desk: Desk) -> None:
    @app.get("/api/runs")
    def runs() -> Response:
        return answered([run.told() for run in desk.runs.values()])

    @app.post("/api/runs")
    async def start(request: Request) -> Response:
        return answered(desk.start(await body(request, Order)).told(), 201)

    @app.get("/api/events")
    async def events() -> StreamingResponse:
        return StreamingResponse(_changes(desk), media_type="text/event-stream")

    @app.post("/api/runs/{id_}/cancel")
    def cancel(id_: str) -> Response:
        with _found("run"):
            return answered(desk.cancel(id_).told())

    @app.delete("/api/runs/{id_}")
    def remove(id_: str) -> Response:
        with _found("run"):
            desk.remove(id_)
        return answered({})

    @app.get("/api/runs/{id_}/code")
    def code(id_: str) -> Response:
        with _found("run"):
            text = desk.code(id_)
        return Response(text, media_type="text/plain", headers=_saved_as(desk.runs[id_].name, ".py"))

    @app.get("/api/runs/{id_}/model")
    def model(id_: str) -> Response:
        return file(id_, "model", ".mercer", "application/octet-stream")

    @app.get("/api/runs/{id_}/report")
    def report(id_: str, download: bool = False) -> Response:
        sent = file(id_, "report", ".html" if download else None, "text/html")
        sent.headers["content-security-policy"] = REPORT
        sent.headers["x-frame-options"] = "SAMEORIGIN"
        return sent

    @app.get("/api/runs/{id_}/predictions")
    def predictions(id_: str) -> Response:
        return file(id_, "predictions", "-predictions.csv", "text/csv")

    @app.post("/api/runs/{id_}/predictions/{table}")
    def predict(id_: str, table: str) -> Response:
        with _found("run"):
            return answered(desk.predict(id_, table))

    @app.get("/api/runs/{id_}/predictions/{table}")
    def predicted(id_: str, table: str) -> Response:
        if table not in desk.tables:
            raise web.WebError(404, "not_found", "there is no such table.")
        return file(id_, f"predicted-{table}", "-predicted.csv", "text/csv")

    def file(id_: str, what: str, ending: str | None, kind: str) -> FileResponse:
        """A file of a run, to be saved under its name and an ending, or shown where there is none."""
        with _found("run"):
            path, name = desk.file(id_, what), desk.runs[id_].name
        headers = None if ending is None else _saved_as(name, ending)
        return FileResponse(path, media_type=kind, headers=headers)


async def _changes(desk: Desk) -> AsyncIterator[bytes]:
    """Every run as it is now, then each as soon as it changes (server-sent events)."""
    seen: dict[str, int] = {}
    spoken = 0.0
    while not desk.leaving():
        runs = dict(desk.runs)
        for id_ in seen.keys() - runs.keys():
            del seen[id_]
            yield b"event: gone\ndata: " + web.dumps(id_) + b"\n\n"
        for run in runs.values():
            if seen.get(run.id) != run.version:
                seen[run.id] = run.version
                spoken = time.monotonic()
                yield b"event: run\ndata: " + web.dumps(run.told()) + b"\n\n"
        if time.monotonic() - spoken > 10:  # who has gone is noticed by writing
            spoken = time.monotonic()
            yield b": still here\n\n"
        await asyncio.sleep(0.1)


@contextlib.contextmanager
def _found(what: str) -> Any:
    try:
        yield
    except KeyError:
        raise web.WebError(404, "not_found", f"there is no such {what}.") from None


def _saved_as(name: str, ending: str) -> dict[str, str]:
    """A header that has a browser save an answer, under letters that mean nothing to a file system."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:60] or "run"
    return {"content-disposition": f'attachment; filename="{plain}{ending}"'}


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
