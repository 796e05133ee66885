"""LAPACK and BLAS on sub-blocks of one buffer, with the GIL released.

The routines are taken as C pointers from SciPy's `cython_lapack` and called through ctypes: in place,
strided, and without holding the
interpreter lock (SciPy's own wrappers hold it: no progress and no Ctrl-C during a long factorisation).

Convention: a symmetric matrix lives in the *upper* triangle of a C-ordered array M, which LAPACK sees as the
lower triangle of its transpose. After `potrf(M)` the upper triangle holds U = L' with M = L L'.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import threading
from collections.abc import Iterator

import numpy as np

_int = ctypes.c_int
_p = ctypes.c_void_p


@functools.cache
def _routine(library: str, name: str, nargs: int):
    import importlib

    capsule = importlib.import_module(f"scipy.linalg.cython_{library}").__pyx_capi__[name]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = (
        _p,
        [ctypes.py_object, ctypes.c_char_p],
    )
    return ctypes.CFUNCTYPE(None, *[_p] * nargs)(
        api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    )


# up to this size a second BLAS thread costs more than it brings (a hundredfold on a busy machine)
_SMALL = 256
_LONG = 2048  # from this size on a call runs in a thread, so that Ctrl-C is answered at once


@functools.cache
def _threads():
    """OpenBLAS' own setter and getter of its number of threads, or None with another BLAS."""
    import scipy.linalg.cython_lapack as module

    return _control(module)


@functools.cache
def _controls():
    """The same for every OpenBLAS there is: SciPy's and NumPy's are libraries of their own."""
    import numpy.linalg._umath_linalg as module

    return [control for control in (_threads(), _control(module)) if control is not None]


def _control(module):
    library = ctypes.CDLL(module.__file__)
    for name in (
        "scipy_openblas_{}_num_threads",
        "scipy_openblas_{}_num_threads64_",
        "openblas_{}_num_threads",
    ):
        try:
            return getattr(library, name.format("set")), getattr(library, name.format("get"))
        except AttributeError:
            continue
    return None


def thread_count() -> int:
    """Threads that BLAS uses; 1 where they cannot be told."""
    control = _threads()
    return 1 if control is None else control[1]()


_entered = threading.Lock()
_before: list[tuple] = []  # setters and what was set, of all that are within; the last to leave puts it back


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """One BLAS thread within, in SciPy and in NumPy. Several threads may be within at a time."""
    with _entered:
        _before.append(tuple((put, get()) for put, get in _controls()))
        for put, _ in _before[0]:
            put(1)
    try:
        yield
    finally:
        with _entered:
            first = _before.pop(0)
            if _before:
                _before[0] = first
            else:
                for put, many in first:
                    put(many)


def threads_for(size: int) -> contextlib.AbstractContextManager[None]:
    """One BLAS thread while problems of this order are small, all of them otherwise."""
    return one_thread() if size <= _SMALL and thread_count() > 1 else contextlib.nullcontext()


def _call(function, size: int, *args) -> None:
    """Call a routine; arrays are passed by pointer, numbers by reference.
    `size` is the order of the problem.
    """
    pointers = [a.ctypes.data if isinstance(a, np.ndarray) else ctypes.byref(a) for a in args]
    if size < _LONG or threading.current_thread() is not threading.main_thread():
        with threads_for(size):
            function(*pointers)
        return
    arrays = [a for a in args if isinstance(a, np.ndarray)]

    def work():
        function(*pointers)
        arrays.clear()  # until then they are kept alive, even if the caller was interrupted and forgot them

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(0.2)


def _char(c: str):
    return ctypes.c_char(c.encode())


_LETTER = {np.dtype(np.float64): "d", np.dtype(np.float32): "s"}


def _square(M: np.ndarray) -> tuple[int, int, str]:
    """Order, leading dimension, and the letter of the precision in the routine's name."""
    letter, size = _LETTER.get(M.dtype), M.itemsize
    by_rows = M.ndim == 2 and (M.size == 0 or (M.strides[1] == size and M.strides[0] >= size * M.shape[1]))
    if letter is None or not by_rows:
        raise TypeError("LAPACK needs a C-ordered matrix of float64 (or float32)")
    return M.shape[0], max(M.strides[0] // size, 1), letter


def potrf(M: np.ndarray) -> int:
    """Cholesky factor in place (upper triangle of C-ordered M). Returns 0,
    or the order of the first minor that is not positive.
    """
    n, ld, letter = _square(M)
    info = _int(0)
    _call(_routine("lapack", f"{letter}potrf", 5), n, _char("L"), _int(n), M, _int(ld), info)
    return info.value


def potri(M: np.ndarray) -> int:
    """Inverse from the factor, in place (upper triangle)."""
    n, ld, letter = _square(M)
    info = _int(0)
    _call(_routine("lapack", f"{letter}potri", 5), n, _char("L"), _int(n), M, _int(ld), info)
    return info.value


def solve_lower(U: np.ndarray, B: np.ndarray, transpose: bool = False) -> np.ndarray:
    """L^-1 B (or L'^-1 B) in place, for B (n, q) given as a Fortran-ordered array or (n,);
    U holds L' in its upper triangle.
    """
    n, ld, letter = _square(U)
    q = 1 if B.ndim == 1 else B.shape[1]
    if q == 0 or n == 0:
        return B
    if (
        B.dtype != U.dtype
        or (B.ndim == 2 and not B.flags.f_contiguous)
        or (B.ndim == 1 and not B.flags.c_contiguous)
    ):
        raise TypeError("the right-hand side must be a Fortran-ordered matrix of the factor's precision")
    side, uplo, trans, diag = _char("L"), _char("L"), _char("T" if transpose else "N"), _char("N")
    if q == 1:  # trsm takes three times as long
        routine = _routine("blas", f"{letter}trsv", 8)
        _call(routine, _order(n, n), uplo, trans, diag, _int(n), U, _int(ld), B, _int(1))
        return B
    one = ctypes.c_double(1.0) if letter == "d" else ctypes.c_float(1.0)
    _call(
        _routine("blas", f"{letter}trsm", 11),
        int((n * n * q) ** (1 / 3)),
        side, uplo, trans, diag, _int(n), _int(q), one, U, _int(ld), B, _int(n),
    )  # fmt: skip
    return B


# -- BLAS-3 on blocks of a C-ordered matrix, named as BLAS sees them: a block A here is A' there -------------


def _block(A: np.ndarray) -> tuple[int, int, int]:
    """Rows and columns as BLAS sees a C-ordered block, and its leading dimension."""
    if A.dtype not in _LETTER or A.ndim != 2 or (A.size and A.strides[1] != A.itemsize):
        raise TypeError("BLAS needs a C-ordered block of float64 (or float32)")
    return A.shape[1], A.shape[0], max(A.strides[0] // A.itemsize, 1)


def _typed(name: str, nargs: int, A: np.ndarray):
    """A routine for the precision of A, and numbers as it takes them."""
    letter = _LETTER[A.dtype]
    return _routine("blas", letter + name, nargs), ctypes.c_double if letter == "d" else ctypes.c_float


def _order(*sizes: int) -> int:
    return int(math.prod(sizes) ** (1 / 3))


def trsm(side: str, uplo: str, trans: str, alpha: float, A: np.ndarray, B: np.ndarray) -> None:
    """B <- alpha op(A)^-1 B (side "L") or alpha B op(A)^-1 ("R"), in place, for triangular A."""
    _triangular("trsm", side, uplo, trans, alpha, A, B)


def trmm(side: str, uplo: str, trans: str, alpha: float, A: np.ndarray, B: np.ndarray) -> None:
    """B <- alpha op(A) B or alpha B op(A), in place, for triangular A."""
    _triangular("trmm", side, uplo, trans, alpha, A, B)


def _triangular(name, side, uplo, trans, alpha, A, B):
    (m, n, ldb), (k, _, lda) = _block(B), _block(A)
    routine, number = _typed(name, 11, A)
    _call(
        routine,
        _order(m, n, k),
        _char(side),
        _char(uplo),
        _char(trans),
        _char("N"),
        _int(m),
        _int(n),
        number(alpha),
        A,
        _int(lda),
        B,
        _int(ldb),
    )


def syrk(trans: str, alpha: float, A: np.ndarray, beta: float, C: np.ndarray) -> None:
    """The lower triangle of C <- alpha A A' + beta C (trans "N") or alpha A'A + beta C ("T"),
    as BLAS sees them.
    """
    (rows, columns, lda), (n, _, ldc) = _block(A), _block(C)
    k = columns if trans == "N" else rows
    routine, number = _typed("syrk", 10, A)
    _call(
        routine,
        _order(n, n, k),
        _char("L"),
        _char(trans),
        _int(n),
        _int(k),
        number(alpha),
        A,
        _int(lda),
        number(beta),
        C,
        _int(ldc),
    )


def gemm(
    transA: str, transB: str, alpha: float, A: np.ndarray, B: np.ndarray, beta: float, C: np.ndarray
) -> None:
    """C <- alpha op(A) op(B) + beta C, as BLAS sees them."""
    (m, n, ldc), (rows, columns, lda), (_, _, ldb) = _block(C), _block(A), _block(B)
    k = columns if transA == "N" else rows
    routine, number = _typed("gemm", 13, A)
    _call(
        routine,
        _order(m, n, k),
        _char(transA),
        _char(transB),
        _int(m),
        _int(n),
        _int(k),
        number(alpha),
        A,
        _int(lda),
        B,
        _int(ldb),
        number(beta),
        C,
        _int(ldc),
    )


def matmul(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A @ B, C-ordered, by SciPy's BLAS: NumPy's is a library of its own,
    and the threads of the two wait in each other's way.
    """
    if (
        A.ndim != 2
        or B.ndim != 2
        or A.dtype != np.float64
        or B.dtype != np.float64
        or 0 in (*A.shape, *B.shape)
    ):
        return A @ B
    out = np.empty((A.shape[0], B.shape[1]))
    a, by_a = _as_rows(A)
    if B.shape[1] == 1:
        _gemv("N" if by_a == "T" else "T", a, np.ascontiguousarray(B), out)
    else:
        b, by_b = _as_rows(B)
        gemm(by_b, by_a, 1.0, b, a, 0.0, out)  # the transpose of it all, as BLAS sees it
    return out


def _gemv(trans: str, A: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """y <- op(A) x, as BLAS sees A."""
    (m, n, lda), (routine, number), one = _block(A), _typed("gemv", 11, A), _int(1)
    _call(
        routine,
        _order(m, n),
        _char(trans),
        _int(m),
        _int(n),
        number(1.0),
        A,
        _int(lda),
        x,
        one,
        number(0.0),
        y,
        one,
    )


def _as_rows(A: np.ndarray) -> tuple[np.ndarray, str]:
    """A C-ordered block, and "N", or "T" if it holds the transpose."""
    if A.flags.f_contiguous and not A.flags.c_contiguous:
        return A.T, "T"
    if A.strides[1] != A.itemsize or A.strides[0] < A.itemsize * A.shape[1]:
        A = np.array(A, order="C")
    return A, "N"


def trtri(M: np.ndarray) -> int:
    """The inverse of the triangular factor, in place."""
    n, ld, letter = _square(M)
    info = _int(0)
    _call(_routine("lapack", f"{letter}trtri", 6), n, _char("L"), _char("N"), _int(n), M, _int(ld), info)
    return info.value


def lauum(M: np.ndarray) -> None:
    """L'L of a lower triangle as LAPACK sees it, in place."""
    n, ld, letter = _square(M)
    info = _int(0)
    _call(_routine("lapack", f"{letter}lauum", 5), n, _char("L"), _int(n), M, _int(ld), info)


def scale_upper(M: np.ndarray, scale: np.ndarray, out: np.ndarray, block: int = 64) -> None:
    """out = diag(scale) M diag(scale) in the upper triangle (M may be `out`), a few rows at a time:
    they stay in the cache.
    """
    n = M.shape[0]
    for i in range(0, n, block):
        rows = slice(i, min(i + block, n))
        np.multiply(M[rows, i:], scale[i:], out=out[rows, i:])
        out[rows, i:] *= scale[rows, None]


def row_squares(M: np.ndarray, block: int = 64) -> np.ndarray:
    """The sums of squares (n,) of the rows of the upper triangle."""
    n = M.shape[0]
    out = np.empty(n)
    for i in range(0, n, block):
        rows = slice(i, min(i + block, n))
        diagonal, right = np.triu(M[rows, rows]), M[rows, rows.stop :]
        out[rows] = np.einsum("ij,ij->i", diagonal, diagonal) + np.einsum("ij,ij->i", right, right)
    return out


def symmetrise(M: np.ndarray, block: int = 128) -> np.ndarray:
    """Copy the upper triangle to the lower, in place, by blocks that fit the cache."""
    n = M.shape[0]
    for i in range(0, n, block):
        rows = slice(i, min(i + block, n))
        D = M[rows, rows]
        np.copyto(D, D.T.copy(), where=np.tri(D.shape[0], k=-1, dtype=bool))
        for j in range(rows.stop, n, block):
            columns = slice(j, min(j + block, n))
            M[columns, rows] = M[rows, columns].T
    return M
