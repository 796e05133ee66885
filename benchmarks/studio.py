"""``python -m benchmarks.studio``: what a change in the playground takes at 50 points, by HTTP on loopback.

Each change moves a point and the picture, alters how many points there are (48 to 50) and, every tenth time,
the kernel: one that was not seen before. CPU time is that of client and server together.
"""

from __future__ import annotations

import http.client
import itertools
import json
import threading
import time

import numpy as np

from mercer.app import web
from mercer.app.studio.desk import Desk
from mercer.app.studio.playground import Playground
from mercer.app.studio.server import application

CHANGES = 60
KERNELS = (
    "SE(l=1)", "SE(l=1) + Periodic(period=2)", "Matern(nu=2.5) * Periodic() + Linear()",
    "RationalQuadratic() + Linear() * SE()", "SE() * Linear() + Constant()",
    "Matern(nu=1.5) + SE() * Periodic()",
)  # fmt: skip


def main() -> None:
    """Print a line for each task."""
    Playground().warm_up(threading.Event())
    bound, token = web.listen("127.0.0.1", 0), web.new_token()
    server = web.server(application(token, Desk(), warm=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    bound.listen()
    thread.start()
    connection = http.client.HTTPConnection("127.0.0.1", bound.getsockname()[1], timeout=60)
    print(f"{'task':<16}{'median':>10}{'95 %':>10}{'CPU median':>14}{'CPU 95 %':>12}   ms")
    for task in ("regression", "robust", "classification"):
        wall, cpu = np.array([_change(connection, token, task, i) for i in range(CHANGES)]).T
        figures = (np.median(wall), np.quantile(wall, 0.95), np.median(cpu), np.quantile(cpu, 0.95))
        print(f"{task:<16}{figures[0]:>10.1f}{figures[1]:>10.1f}{figures[2]:>14.1f}{figures[3]:>12.1f}")
    connection.close()
    server.should_exit = True
    thread.join()


def _change(connection: http.client.HTTPConnection, token: str, task: str, i: int) -> tuple[float, float]:
    """Milliseconds of one change: wall and CPU."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-5, 5, 50)
    y = np.sin(x) + 0.2 * rng.normal(size=50)
    x[0] += 0.01 * i
    kernel = next(itertools.islice(itertools.cycle(KERNELS), i // 10, None))
    asked = {
        "task": task, "points": np.stack([x, y], 1)[: 48 + i % 3].tolist(), "kernel": kernel, "draws": 5,
        "view": [-5.0, 5.0 + 0.01 * i],
    }  # fmt: skip
    body, headers = json.dumps(asked), {"X-Mercer-Token": token}
    wall, cpu = time.perf_counter(), time.process_time()
    connection.request("POST", "/api/playground/answer", body, headers)
    answer = connection.getresponse()
    told = json.loads(answer.read())
    taken = 1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - cpu)
    assert answer.status == 200, told
    return taken


if __name__ == "__main__":
    main()
