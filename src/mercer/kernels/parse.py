"""Kernels from text, for the command line: `parse("4356 * SE(lengthscale=67) + SE(90) * Periodic(period=fixed(1))")`.

The grammar is that of `kernel.formula()`: names of kernels called with numbers, `+`, `*`, `**` (or `^`), `.on(0, "age")`, `fixed(...)` and `param(...)`.
Nothing else is evaluated.
"""

from __future__ import annotations

import ast
import math
from typing import Any

import numpy as np

from mercer.kernels.base import AbstractKernel
from mercer.params import Param, fixed, param


class KernelSyntaxError(ValueError):
    """A text that is not a kernel, with the place where it goes wrong."""


def parse(text: str) -> AbstractKernel:
    """The kernel a formula describes.

    >>> parse("2.1^2 * SE(lengthscale=0.3) + Periodic(period=1)")
    """
    if len(text) > 100_000:
        raise KernelSyntaxError("the kernel formula is longer than 100,000 characters.")
    try:
        tree = ast.parse(text.strip().replace("^", "**"), mode="eval")
        value = _Reader(text).read(tree.body)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise KernelSyntaxError(f"cannot read the kernel {text!r}: {getattr(error, 'msg', error)}.") from None
    if not isinstance(value, AbstractKernel):
        raise KernelSyntaxError(f"{text!r} is a number, not a kernel; for example SE(lengthscale=1.0).")
    return value


class _Reader:
    def __init__(self, text: str):
        from mercer import kernels

        self.text = text
        self.kernels = {name: getattr(kernels, name) for name in kernels.__all__ if _is_kernel(getattr(kernels, name))}

    def fail(self, node, message: str):
        where = ast.get_source_segment(self.text.strip().replace("^", "**"), node) or ""
        return KernelSyntaxError(f"in the kernel {self.text!r}, at {where!r}: {message}")

    def read(self, node):
        if isinstance(node, ast.BinOp):
            return self.operation(node)
        if isinstance(node, ast.Call):
            return self.call(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
            return node.value
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.Constant) and node.value is None:
            return None
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.number(node.operand)
        if isinstance(node, (ast.List, ast.Tuple)):
            return [self.read(e) for e in node.elts]
        if isinstance(node, ast.Name) and node.id == "inf":
            return math.inf
        raise self.fail(node, "only kernels, numbers, +, *, ** and .on(...) are understood.")

    def number(self, node):
        value = self.read(node)
        if not isinstance(value, (int, float)):
            raise self.fail(node, "expected a number.")
        return value

    def operation(self, node):
        left, right = self.read(node.left), self.read(node.right)
        kernels = isinstance(left, AbstractKernel), isinstance(right, AbstractKernel)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Mult):
            if kernels == (False, True):
                return _scaled(left, right)
            if kernels == (True, False):
                return _scaled(right, left)
            return left * right
        if isinstance(node.op, ast.Pow):
            if not kernels[0] and not (abs(left) < 1e150 and abs(right) < 100):
                raise self.fail(node, "the power is too large.")
            return left**right
        if isinstance(node.op, ast.Div) and kernels == (False, False):
            return left / right
        raise self.fail(node, "only +, * and ** combine kernels.")

    def call(self, node):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "on":
            kernel = self.read(node.func.value)
            if not isinstance(kernel, AbstractKernel):
                raise self.fail(node, ".on(...) needs a kernel before it.")
            return kernel.on(*[self.read(a) for a in node.args])
        if not isinstance(node.func, ast.Name):
            raise self.fail(node, "only kernels can be called.")
        name = node.func.id
        args = [self.read(a) for a in node.args]
        named = {k.arg: self.read(k.value) for k in node.keywords if k.arg}
        if name in ("fixed", "param"):
            if len(args) != 1 or set(named) - {"bounds", "tie"}:
                raise self.fail(node, f"{name}(value) takes one value" + (", bounds=(low, high), tie='name'." if name == "param" else "."))
            if "bounds" in named:
                named["bounds"] = tuple(named["bounds"])
            return fixed(args[0]) if name == "fixed" else param(args[0], **named)
        if name not in self.kernels:
            raise self.fail(node, f"unknown kernel {name!r}; there are {sorted(self.kernels)}.")
        try:
            return self.kernels[name](*args, **named)
        except TypeError as error:
            raise self.fail(node, str(error).replace("__init__() ", "")) from None


def _is_kernel(value) -> bool:
    from mercer.kernels.algebra import AbstractComposite

    final = isinstance(value, type) and issubclass(value, AbstractKernel) and not issubclass(value, AbstractComposite)
    return final and not value.__name__.startswith("Abstract")


def _scaled(scale, kernel: Any) -> AbstractKernel:
    """A number before a simple kernel is its variance."""
    if "variance" in kernel.amplitude() and not isinstance(scale, Param):
        variance = np.asarray(kernel.variance)
        if variance.ndim == 0 and float(variance) == 1.0 and "kernel" not in vars(kernel):
            return kernel.with_values(variance=scale)
    return scale * kernel
