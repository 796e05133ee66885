"""Low-rank bounds on a Dask cluster: ``python -m benchmarks.distributed --rows 1000000``.

Generated Parquet, a few workers of one thread and one core each on this machine. One pass is the evidence and
its gradient of all rows. Clusters take turns, and the best time of each counts; CPU seconds of the workers
are beside it, as a busy machine spoils the others.
"""

from __future__ import annotations

import json
import os
import resource
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

D, FILE = 8, 50_000  # columns, rows of a file


def target(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A smooth function of a few columns, with noise."""
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + np.exp(-((X[:, 3] - 0.5) ** 2))
    return f + 0.3 * rng.standard_normal(len(X))


def written(folder: Path, rows: int) -> int:
    """Parquet files of so many rows; how many bytes they are. What is there already is kept."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    for i in range(-(-rows // FILE)):
        path, n = folder / f"part-{i:04}.parquet", min(FILE, rows - i * FILE)
        if not path.exists():
            rng = np.random.default_rng([7, i])
            X = rng.uniform(-2, 2, (n, D))
            columns = {f"x{j}": X[:, j] for j in range(D)}
            pq.write_table(pa.table(columns | {"y": target(X, rng)}), path, row_group_size=FILE)
    return sum(path.stat().st_size for path in folder.glob("*.parquet"))


def on_one_core(core: int) -> None:
    """On a worker: stay there."""
    os.sched_setaffinity(0, {core})


def used() -> tuple[float, float]:
    """On a worker: CPU seconds so far, and the largest resident size in MiB."""
    said = resource.getrusage(resource.RUSAGE_SELF)
    return said.ru_utime + said.ru_stime, said.ru_maxrss / 1024


def cpu_of(client: Any) -> float:
    """CPU seconds of all workers so far."""
    return sum(seconds for seconds, _ in client.run(used).values())


def cluster(workers: int) -> Any:
    from dask.distributed import Client

    client = Client(
        n_workers=workers,
        threads_per_worker=1,
        memory_limit="2GiB",
        dashboard_address=":0",
        set_as_default=False,
    )
    cores = sorted(os.sched_getaffinity(0))
    for i, worker in enumerate(client.scheduler_info()["workers"]):
        client.run(on_one_core, cores[i % len(cores)], workers=[worker])
    return client


def main(
    rows: Annotated[int, typer.Option(help="Rows of generated data.")] = 1_000_000,
    m: Annotated[int, typer.Option(help="Inducing inputs.")] = 256,
    workers: Annotated[str, typer.Option(help="Numbers of workers, by commas.")] = "1,2",
    repeats: Annotated[int, typer.Option(min=0, help="Turns; 0: only the fit.")] = 5,
    evaluations: Annotated[int, typer.Option(help="Of a fit at the end; 0: none.")] = 0,
    checkpoint: Annotated[Path | None, typer.Option(help="Of the fit, if it may be cut short.")] = None,
    folder: Annotated[Path, typer.Option(help="Where the data go.")] = Path("benchmarks/results/distributed"),
    out: Annotated[Path | None, typer.Option(help="Where the JSON goes.")] = None,
) -> None:
    """Time passes over generated Parquet with several numbers of workers."""
    import mercer as mc
    from mercer.columns import Reader
    from mercer.distributed.on_dask import Workers
    from mercer.inference.chunked import evidence_and_gradient

    data = folder / f"rows-{rows}"
    size = written(data, rows)
    source = mc.inputs.parquet(data, target="y")
    print(f"{rows:,} rows x {D}, {size / 2**20:.0f} MiB of Parquet in {len(source)} chunks, m = {m}, "
          f"load {os.getloadavg()[0]:.1f}", flush=True)  # fmt: skip
    names = tuple(f"x{j}" for j in range(D))
    Z = np.random.default_rng(0).uniform(-2, 2, (m, D))
    solver = mc.solvers.VFE(inducing=Z)
    model = mc.Model(mc.GP(mc.kernels.SE(np.full(D, 1.5), 2.0)), mc.likelihoods.Gaussian(0.1))
    clients = {int(w): cluster(int(w)) for w in workers.split(",")}
    found: dict[int, list[dict[str, float]]] = {w: [] for w in clients}
    for turn in range(repeats + 1 if repeats else 0):  # the first compiles
        for w, client in clients.items():
            before = client.run(used)
            began = time.perf_counter()
            value, _, _ = evidence_and_gradient(Workers(client), source, Reader(names, D), model, solver)
            seconds, after = time.perf_counter() - began, client.run(used)
            cpu = [after[a][0] - before[a][0] for a in after]
            peak = max(mib for _, mib in after.values())
            said = dict(seconds=seconds, rate=rows / seconds, cpu=sum(cpu), longest=max(cpu), peak=peak)
            print(f"{turn or 'first':>5}  {w} workers: {seconds:7.1f} s, "
                  f"{rows / seconds:9,.0f} rows/s, {sum(cpu):6.1f} CPU s "
                  f"(busiest {max(cpu):.1f}), peak {peak:.0f} MiB, "
                  f"evidence {value:.6f}", flush=True)  # fmt: skip
            if turn:
                found[w].append(said)
    first = min(clients)
    best = {w: min(said["seconds"] for said in all_) for w, all_ in found.items() if all_}
    busy = {w: min(said["longest"] for said in all_) for w, all_ in found.items() if all_}
    for w in best:
        print(f"{w} workers: best {best[w]:.1f} s, {rows / best[w]:,.0f} rows/s, efficiency "
              f"{best[first] * first / (best[w] * w):.0%} by the clock, "
              f"{busy[first] * first / (busy[w] * w):.0%} by CPU seconds of the busiest")  # fmt: skip
    fit = {}
    if evaluations:
        w, client = max(clients.items())
        from mercer.learning import chunked

        began, before = time.perf_counter(), cpu_of(client)
        seen = chunked.survey(source, Workers(client))
        surveyed = time.perf_counter() - began
        said = None if checkpoint is None else str(checkpoint)
        learned = mc.fit(
            model, seen, solver=mc.solvers.VFE(m=m), max_evaluations=evaluations, checkpoint=said
        )
        passes = [e for e in learned.history if e.size == rows]
        peak = max(mib for _, mib in client.run(used).values())
        fit = dict(seconds=time.perf_counter() - began, survey=surveyed, passes=len(passes), peak=peak)
        fit |= dict(client=used()[1], cpu=cpu_of(client) - before)
        print(f"fit with {w} workers: {fit['seconds']:.0f} s (survey {surveyed:.0f} s), {len(passes)} "
              f"passes over all rows, {fit['cpu']:.0f} CPU s of the workers, evidence {learned.value:.1f}, "
              f"peak of a worker {peak:.0f} MiB, of the client {fit['client']:.0f} MiB")  # fmt: skip
    for client in clients.values():
        client.close()
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        said = dict(rows=rows, m=m, bytes=size, load=os.getloadavg()[0], turns=found, fit=fit)
        out.write_text(json.dumps(said, indent=1))


if __name__ == "__main__":
    typer.run(main)
