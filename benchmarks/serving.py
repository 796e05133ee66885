"""The model server under load, from a second process on loopback: requests of one row at a given rate, then
as many as it takes, with the memory of the server on the way.

    python -m benchmarks.serving --rate 200 --seconds 30 --count 100000

Latencies are counted from the moment at which a request was due, not from when it could be sent: a server
that stands still for a second is late for everyone who came in that second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROWS, CONNECTIONS = 500, 8


def fit(path: str) -> None:
    """A model of 500 rows and five columns, saved."""
    import warnings

    import mercer as mc

    rng = np.random.default_rng(0)
    X = {name: rng.normal(size=ROWS) for name in "abcde"}
    y = np.sin(X["a"]) + X["b"] * X["c"] + 0.1 * rng.normal(size=ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mc.GPRegressor(max_evaluations=20, progress=False).fit(X, y).save(path)


def started(path: Path, core: int | None) -> tuple[subprocess.Popen[str], int]:
    """The server in a process of its own, held to one core where the system can."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    hold = (
        None
        if core is None or not hasattr(os, "sched_setaffinity")
        else lambda: os.sched_setaffinity(0, {core})
    )
    words = [sys.executable, "-m", "mercer.app.cli", "serve", str(path), "--port", "0"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment, preexec_fn=hold)
    assert server.stdout is not None
    found = re.search(r"http://[^:]+:(\d+)", server.stdout.readline())
    if found is None:
        raise RuntimeError("the server did not start.")
    return server, int(found[1])


class Client:
    """One connection that is kept open."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def open(self) -> Client:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def ask(self, body: bytes, path: str = "/predict") -> tuple[int, bytes]:
        """Status and body of an answer."""
        method = "POST" if body else "GET"
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        lines = (await self.reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        length = next(int(line[15:]) for line in lines if line.lower().startswith(b"content-length:"))
        return int(lines[0].split()[1]), await self.reader.readexactly(length)


async def at_a_rate(port: int, bodies: list[bytes], rate: float, seconds: float) -> np.ndarray:
    """Seconds (count,) from when each request was due to its answer."""
    free: asyncio.Queue[Client] = asyncio.Queue()
    for _ in range(4 * CONNECTIONS):
        free.put_nowait(await Client(port).open())
    late: list[float] = []

    async def one(i: int, due: float) -> None:
        client = await free.get()
        status, _ = await client.ask(bodies[i % len(bodies)])
        assert status == 200
        late.append(time.perf_counter() - due)
        free.put_nowait(client)

    began, tasks = time.perf_counter(), []
    for i in range(round(rate * seconds)):
        due = began + i / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(one(i, due)))
    await asyncio.gather(*tasks)
    return np.array(late)


async def many(port: int, bodies: list[bytes], count: int, limit: float) -> list[tuple[int, float]]:
    """(requests, resident megabytes) after the first, and at 10, 50 and 100 % of `count`, or of what the time
    allows.
    """
    done, began, spent = 0, time.perf_counter(), await measured(port, "process_cpu_seconds_total")
    seen = [(0, await resident(port))]
    marks = [round(count * share) for share in (0.1, 0.5, 1.0)]

    async def worker(client: Client) -> None:
        nonlocal done
        while done < marks[0] and time.perf_counter() - began < limit:
            done += 1
            status, _ = await client.ask(bodies[done % len(bodies)])
            assert status == 200

    clients = [await Client(port).open() for _ in range(CONNECTIONS)]
    while marks and time.perf_counter() - began < limit:
        await asyncio.gather(*[worker(client) for client in clients])
        marks.pop(0)
        seen.append((done, await resident(port)))
    took = time.perf_counter() - began
    cpu = 1e3 * (await measured(port, "process_cpu_seconds_total") - spent) / max(done, 1)
    rate = f"{done / took:.0f} a second, {cpu:.2f} ms of processor time each"
    print(f"{done} requests on {CONNECTIONS} connections in {took:.0f} s: {rate}")
    return seen


async def resident(port: int) -> float:
    """Megabytes that the server holds."""
    return await measured(port, "process_resident_memory_bytes") / 1e6


async def measured(port: int, name: str) -> float:
    """What `/metrics` says."""
    _, text = await (await Client(port).open()).ask(b"", "/metrics")
    found = re.search(rf"^{name} ([0-9.e+]+)$", text.decode(), re.M)
    assert found is not None
    return float(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=200.0, help="requests a second")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long at that rate")
    parser.add_argument("--count", type=int, default=0, help="requests after that, as fast as they go")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds that those may take")
    parser.add_argument("--core", type=int, default=0, help="core of the server; -1 for any")
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows500.mercer"
        words = f"from benchmarks.serving import fit; fit({str(path)!r})"  # this process computes nothing
        subprocess.run([sys.executable, "-c", words], check=True)
        rows = np.random.default_rng(1).normal(size=(64, 5)).tolist()
        bodies = [json.dumps({"rows": [dict(zip("abcde", row, strict=True))]}).encode() for row in rows]
        server, port = started(path, None if said.core < 0 else said.core)
        try:
            load = os.getloadavg()[0]
            late = 1e3 * asyncio.run(at_a_rate(port, bodies, said.rate, said.seconds))
            p50, p90, p99 = np.quantile(late, [0.5, 0.9, 0.99])
            print(f"{len(late)} requests at {said.rate:g} a second (load average {load:.1f}):")
            print(f"median {p50:.1f} ms, 90 % {p90:.1f} ms, 99 % {p99:.1f} ms, most {late.max():.1f} ms")
            if said.count:
                for done, megabytes in asyncio.run(many(port, bodies, said.count, said.limit)):
                    print(f"after {done:6d} requests: {megabytes:.1f} MB resident")
        finally:
            server.terminate()
            server.wait(30)


if __name__ == "__main__":
    main()
