"""One epoch of GPyTorch's SVGP over the generated Parquet of `benchmarks.distributed`, in one process, in an
environment that has gpytorch and pyarrow:

    python benchmarks/distributed_gpytorch.py FOLDER --rows 100000

Natural gradients of q by batches of 1024, Adam for the rest, float64 and m = 256: as in `inference.SVGP`. The
rows are the first ones; an epoch of all is so many times longer.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import gpytorch
import numpy as np
import pyarrow.parquet as pq
import torch


class Variational(gpytorch.models.ApproximateGP):
    def __init__(self, Z: torch.Tensor):
        q = gpytorch.variational.NaturalVariationalDistribution(len(Z))
        super().__init__(gpytorch.variational.VariationalStrategy(self, Z, q, learn_inducing_locations=True))
        self.mean = gpytorch.means.ZeroMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=Z.shape[1]))

    def forward(self, X: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean(X), self.kernel(X))


def read(folder: Path, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The first rows of the files: (n, d) and (n,)."""
    tables, n = [], 0
    for path in sorted(folder.glob("*.parquet")):
        if n >= rows:
            break
        tables.append(pq.read_table(path))
        n += tables[-1].num_rows
    columns = [np.concatenate([t[name].to_numpy() for t in tables])[:rows] for name in tables[0].column_names]
    values = torch.from_numpy(np.stack(columns, 1))
    return values[:, :-1].contiguous(), values[:, -1].contiguous()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--of", type=int, default=10_000_000)
    parser.add_argument("--m", type=int, default=256)
    parser.add_argument("--batch", type=int, default=1024)
    given = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    X, y = read(given.folder, given.rows)
    model = Variational(X[torch.randperm(len(X))[: given.m]].clone())
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    natural = gpytorch.optim.NGD(model.variational_parameters(), num_data=len(y), lr=0.1)
    adam = torch.optim.Adam([*model.hyperparameters(), *likelihood.parameters()], lr=0.01)
    model.train()
    clock, cpu = time.perf_counter(), time.process_time()
    for rows in torch.randperm(len(y)).split(given.batch):
        natural.zero_grad()
        adam.zero_grad()
        loss = -bound(model(X[rows]), y[rows])
        loss.backward()
        natural.step()
        adam.step()
    seconds, used = time.perf_counter() - clock, time.process_time() - cpu
    print(f"{len(y):,} rows, m = {given.m}, batches of {given.batch}, {torch.get_num_threads()} threads: "
          f"{seconds:.1f} s, {used:.1f} CPU s, {len(y) / used:,.0f} rows a CPU second; {given.of:,} rows "
          f"would take {used * given.of / len(y):,.0f} CPU s")  # fmt: skip


if __name__ == "__main__":
    main()
