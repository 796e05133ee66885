"""Who may ask, how much and how long: on a real server, from outside."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time

import pytest

from mercer.app import web
from tests.app.serving import ask, running

fastapi = pytest.importorskip("fastapi", reason='needs the extra: pip install "mercer[serve]"')
pytest.importorskip("uvicorn", reason='needs the extra: pip install "mercer[serve]"')

TOKEN = "a-token-of-the-tests"


def application(**rules):
    app = fastapi.FastAPI(docs_url=None, redoc_url=None)
    web.answer_errors(
        app, lambda e: web.WebError(422, "value", str(e)) if isinstance(e, ValueError) else None
    )

    @app.post("/echo")
    async def echo(request: fastapi.Request):
        return fastapi.Response(web.dumps(await web.json_body(request)), media_type="application/json")

    @app.post("/form")
    async def form(request: fastapi.Request, what: dict):
        return what

    @app.get("/free")
    async def free():
        return {"fine": True}

    @app.get("/value")
    async def value():
        raise ValueError("this value")

    @app.get("/bug")
    async def bug():
        raise KeyError("secret inside")

    @app.get("/slow")
    async def slow():
        import asyncio

        await asyncio.sleep(0.6)
        return {"fine": True}

    return web.Guard(app, **rules)


@pytest.fixture(scope="module")
def port():
    rules = {"token": TOKEN, "free": lambda path: path == "/free", "body_bytes": 10_000, "seconds": 0.5}
    app = application(hosts=["models.example"], origins=["https://page.example"], **rules)
    with running(app, seconds=1.0) as port:
        yield port


BEARER = {"Authorization": f"Bearer {TOKEN}"}


def error(answer):
    status, said, headers = answer
    assert set(said) == {"error"} and set(said["error"]) == {"type", "message", "column", "row", "hint"}
    assert headers["x-content-type-options"] == "nosniff"
    return status, said["error"]["type"]


def test_token(port):
    assert ask(port, "/echo", {"a": 1}, BEARER)[:2] == (200, {"a": 1})
    assert ask(port, "/echo", {"a": 1}, {"X-Mercer-Token": TOKEN})[0] == 200
    assert ask(port, "/free")[0] == 200
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"X-Mercer-Token": "é"},
    ):
        assert error(ask(port, "/echo", {"a": 1}, headers)) == (401, "token")
    assert ask(port, f"/echo?token={TOKEN}", {"a": 1})[0] == 401  # not in addresses, which logs keep


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:80", "[::1]:9", "models.example:1", "LOCALHOST:5"])
def test_own_names(port, host):
    assert ask(port, "/free", headers={"Host": host})[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", ""])
def test_other_names_are_refused(port, host):
    """A name of somebody else's that leads to this address: DNS rebinding."""
    assert error(ask(port, "/free", headers={"Host": host})) == (421, "wrong_host")


def test_origins(port):
    own = f"127.0.0.1:{port}"
    assert ask(port, "/free", headers={"Host": own, "Origin": f"http://{own}"})[0] == 200
    assert ask(port, "/free", headers={"Origin": "https://page.example"})[0] == 200
    for other in ("https://evil.example", "null", "http://127.0.0.1:1", f"https://{own}"):
        assert error(ask(port, "/free", headers={"Host": own, "Origin": other})) == (403, "other_origin")
    embedded = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert error(ask(port, "/free", headers=embedded)) == (403, "other_origin")
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert ask(port, "/free", headers=followed)[0] == 200


def test_headers_of_all_answers(port):
    _, _, headers = ask(port, "/free")
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["x-frame-options"] == "DENY" and headers["cache-control"] == "no-store"
    assert "server" not in headers


@pytest.mark.parametrize("path", ["/echo", "/form"])
def test_large_bodies(port, path):
    big = b'{"a": "' + b"x" * 60_000 + b'"}'
    assert error(ask(port, path, big, BEARER)) == (413, "too_large")


@pytest.mark.parametrize("path", ["/echo", "/form"])
def test_large_bodies_that_do_not_say_so(port, path):
    """Counted as they arrive: nothing says their length."""

    def pieces():
        for _ in range(30):
            yield b" " * 1000

    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("POST", path, pieces(), BEARER, encode_chunked=True)
        answer = connection.getresponse()
        assert answer.status == 413 and b"too_large" in answer.read()


def head(path: str, length: int) -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {TOKEN}",
        f"Content-Length: {length}",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize("path", ["/echo", "/form"])
def test_slow_bodies(port, path):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(head(path, 100) + b'{"a"')
        got = b"".join(iter(lambda: client.recv(10_000), b""))
        assert got.startswith(b"HTTP/1.1 408") and b"too_slow" in got


def test_slow_heads(port):
    """Who never ends the head of a request, or begins none, is cut off."""
    address = ("127.0.0.1", port)
    with socket.create_connection(address, 20) as begun, socket.create_connection(address, 20) as silent:
        begun.sendall(b"POST /echo HTTP/1.1\r\nHost: local")
        assert begun.recv(1000) == b"" and silent.recv(1000) == b""


def test_clients_that_go(port):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(head("/echo", 100) + b'{"a"')
    assert ask(port, "/free")[0] == 200


@pytest.mark.parametrize(
    "body", [b"{", b"", b'{"a": NaN}', b"\xff\xfe", b"[" * 9000, b'{"a": ' + b"9" * 5000 + b"}"]
)
def test_malformed_json(port, body):
    status, said, _ = ask(port, "/echo", body, BEARER)
    assert (status, said["error"]["type"]) == (400, "malformed_json")


def test_compressed_bodies_are_not_opened(port):
    import gzip

    bomb = gzip.compress(b" " * 5_000_000)[:9000]
    headers = BEARER | {"Content-Encoding": "gzip"}
    assert error(ask(port, "/echo", bomb, headers)) == (415, "content_encoding")


def test_errors_of_the_application(port, caplog):
    assert error(ask(port, "/nowhere", headers=BEARER)) == (404, "not_found")
    assert error(ask(port, "/echo", headers=BEARER)) == (405, "method_not_allowed")
    assert error(ask(port, "/form", [1], BEARER)) == (422, "invalid")
    assert error(ask(port, "/value", headers=BEARER)) == (422, "value")
    answer = ask(port, "/bug", headers=BEARER)
    assert error(answer) == (500, "internal_error")
    assert "secret" not in str(answer[1]) and "secret inside" in caplog.text


def test_nothing_that_reads_as_a_tag(port):
    status, said, _ = ask(port, "/echo", {"<script>": "</script>"}, BEARER)
    assert (status, said) == (200, {"<script>": "</script>"})
    assert b"<" not in web.dumps(said)


def test_too_many_at_once():
    with running(application(concurrency=2)) as port:
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(ask(port, "/slow"))) for _ in range(2)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        refused = ask(port, "/free")
        assert error(refused) == (503, "busy") and refused[2]["retry-after"] == "1"
        for thread in threads:
            thread.join()
        assert [a[0] for a in answers] == [200, 200]
        assert ask(port, "/free")[0] == 200


def test_requests_under_way_are_answered_at_the_end():
    answers = []
    with running(application()) as port:
        thread = threading.Thread(target=lambda: answers.append(ask(port, "/slow")))
        thread.start()
        time.sleep(0.2)
    thread.join()
    assert answers[0][0] == 200


def test_ports_that_are_taken():
    bound = web.listen("127.0.0.1", 0)
    bound.listen()
    with pytest.raises(OSError, match=r"cannot listen on 127.0.0.1:.*another --port"):
        web.listen("127.0.0.1", bound.getsockname()[1])
    bound.close()


def test_what_is_not_installed_is_said(monkeypatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ImportError, match=r'mercer serve needs fastapi and uvicorn: pip install "mercer\[serve\]"'
    ):
        web.needs("serve", "mercer serve")
