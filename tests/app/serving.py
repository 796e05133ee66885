"""A server of ours on loopback, in a thread of the tests, and requests to it."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

from mercer.app import web


@contextlib.contextmanager
def running(app: Any, **settings: Any) -> Iterator[int]:
    """The port at which an application is served within."""
    bound = web.listen("127.0.0.1", 0)
    server = web.server(app, **settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield bound.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


def ask(
    port: int, path: str, body: Any = None, headers: dict[str, str] | None = None, method: str | None = None
) -> tuple[int, Any, dict[str, str]]:
    """Status, what the body says, headers. A body that is no bytes is sent as JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        connection.request(method or ("GET" if body is None else "POST"), path, body, headers or {})
        answer = connection.getresponse()
        content = answer.read()
        told = dict((k.lower(), v) for k, v in answer.getheaders())
        if told.get("content-type", "").startswith("application/json"):
            return answer.status, json.loads(content), told
        return answer.status, content.decode(), told
    finally:
        connection.close()
