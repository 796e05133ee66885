"""What the studio and the model server share: who may ask, how much, how long, and how errors are answered.

`Guard` is an ASGI application around another. It refuses, before anything is parsed, requests under a name
that is not ours (DNS rebinding) or from other pages (`Origin`), without the token, too large, too slow or too
many at once; and puts the headers on every answer that browsers ask for. Every error is JSON of one form:

    {"error": {"type": "...", "message": "...", "column": null, "row": null, "hint": null}}

Nothing here imports more than the standard library until an application is made.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import json
import logging
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any, NoReturn

__all__ = [
    "Guard",
    "WebError",
    "answer_errors",
    "dumps",
    "json_body",
    "listen",
    "needs",
    "new_token",
    "server",
]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Receive, Send], Awaitable[None]]

MEGABYTE = 2**20
NOTHING = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
log = logging.getLogger("mercer.web")


class WebError(Exception):
    """What a request is refused for: an HTTP status, a word for programs, a sentence for people, and where.

    >>> raise WebError(422, "missing_column", "row 3 has no 'rooms'.", column="rooms", row=3)
    """

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        column: str | None = None,
        row: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.column, self.row, self.hint = status, kind, column, row, hint

    def said(self) -> dict[str, Any]:
        """As the body of an answer."""
        where = {"column": self.column, "row": self.row, "hint": self.hint}
        return {"error": {"type": self.kind, "message": str(self)} | where}


def unexpected() -> WebError:
    """An error that is nobody's mistake but ours: what it was stays in the log."""
    return WebError(500, "internal_error", "an unexpected error, which the server's log tells.")


def needs(extra: str, command: str) -> None:
    """Say at once that what an extra of the package brings is not installed."""
    import importlib.util

    missing = [name for name in ("fastapi", "uvicorn") if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(
            f'{command} needs {" and ".join(missing)}: pip install "mercer[{extra}]", which brings it.'
        )


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(24)


def dumps(value: Any) -> bytes:
    """JSON in which no `<` is left that a browser could take for a tag, and no NaN."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").encode("utf-8", "replace")


async def json_body(request: Any) -> Any:
    """What the body of a request says, whatever its content type; a `WebError` where it is not JSON."""
    body = await request.body()
    if not body:
        raise WebError(400, "malformed_json", "the body is empty.", hint="send a JSON object")
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_constant)
    except UnicodeDecodeError as error:
        raise WebError(400, "malformed_json", f"the body is not UTF-8: byte {error.start}.") from None
    except RecursionError:
        raise WebError(400, "malformed_json", "the body is nested too deeply.") from None
    except ValueError as error:
        hint = "empty cells are null" if "NaN" in str(error) else None
        raise WebError(400, "malformed_json", f"the body is not JSON: {error}.", hint=hint) from None


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a value of JSON")


# ------------------------------------------------------------------------------------------------- the guard


class Guard:
    """An ASGI application that lets through to `app` what may pass.

    app: the application
    hosts: names under which it may be asked, besides localhost and plain addresses, which nobody can rebind;
        "*" for any, behind a proxy that checks
    origins: pages that may ask besides those of the application itself: "https://example.org"
    token: without it every request is refused (401) but those to `free` paths; None: no token is asked
    free: whether a path is answered without token
    body_bytes: the largest body
    uploads: paths with another largest body, in bytes
    seconds: how long a body may take to arrive
    concurrency: how many requests may be under way; more are told to come back (503)
    policy: Content-Security-Policy of answers that bring none
    """

    def __init__(
        self,
        app: Application,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
        token: str | None = None,
        free: Callable[[str], bool] = lambda path: False,
        body_bytes: int = MEGABYTE,
        uploads: dict[str, int] | None = None,
        seconds: float = 10.0,
        concurrency: int = 64,
        policy: str = NOTHING,
    ) -> None:
        self.app, self.token, self.free = app, token, free
        self.hosts = {name.lower() for name in hosts}
        self.origins = {origin.lower() for origin in origins}
        self.body_bytes, self.uploads, self.seconds = body_bytes, uploads or {}, seconds
        self.concurrency, self.under_way = concurrency, 0
        self.headers = [(k.encode(), v.encode()) for k, v in HEADERS.items()]
        self.headers.append((b"content-security-policy", policy.encode()))

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":  # no page of ours opens a web socket
            return await send({"type": "websocket.close", "code": 1008})
        answer = _Answer(send, self.headers)
        limit = self.uploads.get(scope["path"], self.body_bytes)
        body = _Body(receive, limit, self.seconds)
        self.under_way += 1
        try:
            self._admit(scope, limit)
            await self.app(scope, body, answer.unless(body))
            if body.error is not None:
                raise body.error
        except Exception as error:
            if body.gone:
                return  # nobody is there to be told
            refusal = body.error or error
            if not isinstance(refusal, WebError):
                log.exception("%s %s", scope["method"], scope["path"])
                refusal = unexpected()
            if refusal.status != 408:
                await body.drain()
            await answer.refuse(refusal, close=not body.ended)
        finally:
            self.under_way -= 1

    def _admit(self, scope: Any, limit: int) -> None:
        """Refuse what the headers tell."""
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name in headers and name in (b"host", b"origin", b"content-length", b"authorization"):
                raise WebError(400, "bad_header", f"the header {name.decode()} stands twice.")
            headers[name] = value
        told = {name: headers.get(name, b"").decode("latin-1").strip() for name in _READ}
        host = told[b"host"].lower()
        if not self._ours(host):
            raise WebError(
                421,
                "wrong_host",
                f"the server is not asked under the name {host!r}.",
                hint="ask by address or localhost, or allow the name when the server is started",
            )
        self._same_page(told, scope, host)
        if self.under_way > self.concurrency:
            raise WebError(503, "busy", "too many requests at once.", hint="ask again in a second")
        if self.token is not None and not self.free(scope["path"]) and not self._knows(told):
            raise WebError(
                401,
                "token",
                "the token is missing or wrong.",
                hint="send the header Authorization: Bearer ...",
            )
        if told[b"content-encoding"].lower() not in ("", "identity"):
            raise WebError(415, "content_encoding", "compressed bodies are not read.", hint="send it plainly")
        length = told[b"content-length"]
        if length.isdigit() and int(length) > limit:
            raise _too_large(limit)

    def _ours(self, host: str) -> bool:
        name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
        if "*" in self.hosts or name == "localhost" or name in self.hosts:
            return True
        try:
            return bool(ipaddress.ip_address(name))
        except ValueError:
            return False

    def _same_page(self, told: dict[bytes, str], scope: Any, host: str) -> None:
        origin = told[b"origin"].lower()
        other = origin and origin != f"{scope.get('scheme', 'http')}://{host}" and origin not in self.origins
        opened = scope["method"] == "GET" and told[b"sec-fetch-mode"] == "navigate"
        elsewhere = not origin and told[b"sec-fetch-site"] == "cross-site" and not opened
        if other or elsewhere:
            raise WebError(403, "other_origin", f"pages of {origin or 'other sites'} may not ask here.")

    def _knows(self, told: dict[bytes, str]) -> bool:
        kind, _, bearer = told[b"authorization"].partition(" ")
        given = bearer.strip() if kind.lower() == "bearer" else told[b"x-mercer-token"]
        return hmac.compare_digest(given.encode(), (self.token or "").encode())


_READ = (
    b"host", b"origin", b"authorization", b"x-mercer-token", b"content-encoding", b"content-length",
    b"sec-fetch-site", b"sec-fetch-mode",
)  # fmt: skip


def _too_large(limit: int) -> WebError:
    size = f"{limit / MEGABYTE:.3g} MB" if limit >= MEGABYTE else f"{limit} bytes"
    return WebError(413, "too_large", f"the body is larger than {size}.", hint="send fewer rows at a time")


class _Body:
    """What arrives of a body: counted, and not waited for for ever."""

    def __init__(self, receive: Receive, limit: int, seconds: float) -> None:
        self._receive, self._left = receive, limit
        self._until = asyncio.get_running_loop().time() + seconds
        self._limit = limit
        self.error: WebError | None = None
        self.ended = self.gone = False

    async def __call__(self) -> Message:
        if self.ended:
            return await self._receive()
        if self.error is not None:
            raise self.error
        try:
            message = await self._more(self._until)
        except TimeoutError:
            self.error = WebError(408, "too_slow", "the body did not arrive in time.")
            raise self.error from None
        if self._left < 0:
            self.error = _too_large(self._limit)
            raise self.error
        return message

    async def _more(self, until: float) -> Message:
        async with asyncio.timeout_at(until):
            message = await self._receive()
        self.gone = message["type"] == "http.disconnect"
        self.ended = not message.get("more_body", False)
        self._left -= len(message.get("body", b""))
        return message

    async def drain(self) -> None:
        """Read on for a moment: who is still sending when the connection is closed does not see why."""
        until, enough = asyncio.get_running_loop().time() + 1.0, min(self._left, 0) - MEGABYTE
        with contextlib.suppress(TimeoutError):
            while not self.ended and self._left > enough:
                await self._more(until)


class _Answer:
    """What is sent: with the headers of all answers, and an error in its place while nothing is under way."""

    def __init__(self, send: Send, headers: list[tuple[bytes, bytes]]) -> None:
        self._send, self._headers, self._started = send, headers, False

    def unless(self, body: _Body) -> Send:
        async def send(message: Message) -> None:
            if body.error is not None and not self._started:
                return  # the guard answers
            if message["type"] == "http.response.start":
                self._started = True
                there = {name.lower() for name, _ in message.get("headers", [])}
                message["headers"] = [
                    *message.get("headers", []), *(h for h in self._headers if h[0] not in there)
                ]  # fmt: skip
            await self._send(message)

        return send

    async def refuse(self, error: WebError, close: bool) -> None:
        if self._started:
            raise error  # the connection is cut
        text = dumps(error.said())
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(text)).encode())]
        extra = {401: (b"www-authenticate", b"Bearer"), 503: (b"retry-after", b"1")}
        headers += [extra[error.status]] if error.status in extra else []
        headers += [(b"connection", b"close")] if close else []
        start = {"type": "http.response.start", "status": error.status, "headers": headers + self._headers}
        await self._send(start)
        await self._send({"type": "http.response.body", "body": text})


# ------------------------------------------------------------------------------------------- applications


def answer_errors(app: Any, also: Callable[[Exception], WebError | None] = lambda error: None) -> None:
    """Let an application of FastAPI's answer every error as JSON of the one form.

    also: what an exception of another kind means, or None where it is not expected: that is logged, and
        answered with 500 and no details
    """
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException
    from starlette.responses import Response

    def answered(error: WebError) -> Any:
        return Response(dumps(error.said()), error.status, media_type="application/json")

    async def ours(_: Any, error: Any) -> Any:
        return answered(error)

    async def http(_: Any, error: Any) -> Any:
        kind = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "refused")
        return answered(WebError(error.status_code, kind, str(error.detail)))

    async def invalid(_: Any, error: Any) -> Any:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first.get("loc", ()))
        return answered(WebError(422, "invalid", f"{where}: {first.get('msg', 'not valid')}."))

    async def other(request: Any, error: Exception) -> Any:
        known = also(error)
        if known is None:
            log.error("%s %s", request.method, request.url.path, exc_info=error)
            known = unexpected()
        return answered(known)

    app.add_exception_handler(WebError, ours)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, invalid)
    for kind in (ValueError, TypeError, ArithmeticError, LookupError, RuntimeError, MemoryError):
        app.add_exception_handler(kind, other)


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound; port 0 takes one that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except (OSError, OverflowError) as error:
        bound.close()
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise OSError(f"cannot listen on {host}:{port} ({reason}): another --port may be free.") from error
    return bound


def server(app: Application, connections: int = 512, seconds: float = 10.0) -> Any:
    """A server of uvicorn's: `run(sockets=[bound])` answers requests until SIGINT or SIGTERM, or until
    `should_exit` is set; those under way are then answered first.

    connections: how many may be open at once; seconds: how long the head of a request may take to arrive,
    and how long those under way are waited for at the end
    """
    import uvicorn

    waiting: dict[Any, float] = {}  # connections whose next request has not begun, or not wholly arrived

    async def close_silent() -> None:
        now = time.monotonic()
        silent = [c for c in made.server_state.connections if _silent(c)]
        since = {c: waiting.get(c, now) for c in silent}
        waiting.clear()
        waiting.update(since)
        for connection, first in since.items():
            if now - first > seconds:
                connection.transport.close()

    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=connections,
        timeout_graceful_shutdown=max(1, round(seconds)),
        h11_max_incomplete_event_size=32768,
        callback_notify=close_silent,
        timeout_notify=0,
    )
    made = uvicorn.Server(config)
    return made


def _silent(connection: Any) -> bool:
    """Whether no request of it is under way and nothing else counts its time."""
    idle = connection.cycle is None or connection.cycle.response_complete
    return idle and connection.timeout_keep_alive_task is None
