"""Cholesky factor and inverse of a large matrix, panel by panel in its own buffer: the flops of LAPACK, with
progress in between.

The matrix lives in the upper triangle of a C-ordered array, which BLAS sees as the lower triangle of the
transpose (see `mercer.linalg.lapack`). Each step is one large BLAS-3 call, after which Ctrl-C is answered and
progress is told.
"""

from __future__ import annotations

import numpy as np

from mercer.linalg import lapack
from mercer.progress import tell

FROM = 8192  # smaller matrices go to LAPACK in one call
PANEL = 2048
STRIP = 8192  # rows of the rest that a panel is taken off at once


def potrf(M: np.ndarray, panel: int | None = None) -> int:
    """`lapack.potrf` by panels: 0, or the order of the first minor that is not positive."""
    n, panel = M.shape[0], panel or PANEL
    for k in range(0, n, panel):
        end = min(k + panel, n)
        diagonal = M[k:end, k:end]
        info = lapack.potrf(diagonal)
        if info != 0:
            return k + info
        if end < n:
            lapack.trsm("R", "L", "T", 1.0, diagonal, M[k:end, end:])
            _subtract_square(M[k:end, end:], M[end:, end:])
        tell(1.0 - ((n - end) / n) ** 3, 1.0, "factor")
    return 0


def _subtract_square(A: np.ndarray, C: np.ndarray) -> None:
    """The upper triangle of C <- C - A'A, some rows of C at a time:
    OpenBLAS' threaded syrk breaks down for C of order 38,000.
    """
    m = C.shape[0]
    for j in range(0, m, STRIP):
        end = min(j + STRIP, m)
        lapack.syrk("N", -1.0, A[:, j:end], 1.0, C[j:end, j:end])
        if end < m:
            lapack.gemm("N", "T", -1.0, A[:, end:], A[:, j:end], 1.0, C[j:end, end:])


def potri(M: np.ndarray, panel: int | None = None) -> int:
    """`lapack.potri` by panels: the inverse (upper triangle) from the factor, in place."""
    info = trtri(M, panel)
    if info == 0:
        lauum(M, panel)
    return info


def trtri(M: np.ndarray, panel: int | None = None) -> int:
    """`lapack.trtri` by panels, from the last one up: the factor's inverse, in place."""
    n, panel = M.shape[0], panel or PANEL
    for k in reversed(range(0, n, panel)):
        end = min(k + panel, n)
        diagonal = M[k:end, k:end]
        if end < n:
            lapack.trmm("L", "L", "N", 1.0, M[end:, end:], M[k:end, end:])
            lapack.trsm("R", "L", "N", -1.0, diagonal, M[k:end, end:])
        info = lapack.trtri(diagonal)
        if info != 0:
            return k + info
        tell(0.5 * ((n - k) / n) ** 3, 1.0, "inverse")
    return 0


def lauum(M: np.ndarray, panel: int | None = None) -> None:
    """`lapack.lauum` by panels: the product of the factor's inverse with its own transpose, in place."""
    n, panel = M.shape[0], panel or PANEL
    for k in range(0, n, panel):
        end = min(k + panel, n)
        diagonal, above = M[k:end, k:end], M[:k, k:end]
        if k > 0:
            lapack.trmm("L", "L", "T", 1.0, diagonal, above)
        lapack.lauum(diagonal)
        if end < n:
            if k > 0:
                lapack.gemm("T", "N", 1.0, M[k:end, end:], M[:k, end:], 1.0, above)
            lapack.syrk("T", 1.0, M[k:end, end:], 1.0, diagonal)
        tell(0.5 + 0.5 * (end / n) ** 2 * (3 - 2 * end / n), 1.0, "inverse")
