"""What a server has done, in the text format that Prometheus reads (version 0.0.4)."""

from __future__ import annotations

import bisect
import collections
import os
import sys
import time
from typing import Any

__all__ = ["Counted", "Metrics"]

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """Counters that only grow, and two histograms. paths: those that are told apart; others are "other"."""

    def __init__(self, paths: tuple[str, ...], version: str, kind: str) -> None:
        self._paths, self._about = paths, {"version": version, "model": kind}
        self._requests: collections.Counter[tuple[str, str, int]] = collections.Counter()
        self._seconds, self._batches = _Histogram(SECONDS), _Histogram(SIZES)
        self._rows = self._updates = self.under_way = 0
        self._began = time.time()

    def answered(self, method: str, path: str, status: int, seconds: float) -> None:
        """A request has its answer."""
        known = method if method in ("GET", "POST") else "other"
        self._requests[known, path if path in self._paths else "other", status] += 1
        if path == "/predict":
            self._seconds.add(seconds)

    def predicted(self, questions: int, rows: int) -> None:
        """One prediction for so many requests."""
        self._rows += rows
        self._batches.add(questions)

    def updated(self, values: int) -> None:
        """New values were learned."""
        self._updates += values

    def text(self) -> str:
        """All of it."""
        lines: list[str] = []

        def family(name: str, kind: str, words: str, samples: list[tuple[str, float]]) -> None:
            lines.extend((f"# HELP {name} {words}", f"# TYPE {name} {kind}"))
            lines.extend(f"{name}{labels} {value:.10g}" for labels, value in samples)

        requests: list[tuple[str, float]] = [
            (_labels(method=m, path=p, status=str(s)), n) for (m, p, s), n in sorted(self._requests.items())
        ]
        family("mercer_requests_total", "counter", "Requests answered.", requests)
        family(
            "mercer_requests_under_way", "gauge", "Requests that wait for an answer.", [("", self.under_way)]
        )
        family("mercer_predicted_rows_total", "counter", "Rows predicted.", [("", self._rows)])
        family("mercer_updated_values_total", "counter", "New values taken in.", [("", self._updates)])
        family(
            "mercer_predict_seconds", "histogram", "From a request to its answer.", self._seconds.samples()
        )
        family("mercer_batch_requests", "histogram", "Requests in a prediction.", self._batches.samples())
        family("mercer_info", "gauge", "What is served.", [(_labels(**self._about), 1)])
        family("process_start_time_seconds", "gauge", "Since 1970.", [("", self._began)])
        family("process_cpu_seconds_total", "counter", "User and system time.", [("", time.process_time())])
        family("process_resident_memory_bytes", "gauge", "Resident memory.", [("", resident_bytes())])
        return "\n".join(lines) + "\n"


class _Histogram:
    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds, self._counts, self._sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        self._counts[bisect.bisect_left(self._bounds, value)] += 1
        self._sum += value

    def samples(self) -> list[tuple[str, float]]:
        total, out = 0, list[tuple[str, float]]()
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            total += count
            out.append((f'_bucket{{le="{"+Inf" if bound == float("inf") else f"{bound:g}"}"}}', total))
        return [*out, ("_sum", self._sum), ("_count", total)]


class Counted:
    """An ASGI application whose answers are counted."""

    def __init__(self, app: Any, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        began, status = time.perf_counter(), 500
        self.metrics.under_way += 1

        async def seen(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, seen)
        finally:
            self.metrics.under_way -= 1
            self.metrics.answered(scope["method"], scope["path"], status, time.perf_counter() - began)


def _labels(**labels: str) -> str:
    def text(value: str) -> str:
        return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')

    return "{" + ",".join(f'{name}="{text(value)}"' for name, value in labels.items()) + "}"


def resident_bytes() -> float:
    """Memory of this process now; where the system does not tell, the most it has had."""
    try:
        with open("/proc/self/statm") as file:
            return float(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, AttributeError):
        try:
            import resource
        except ImportError:
            return 0.0

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return float(most if sys.platform == "darwin" else 1024 * most)
