"""Kernels from text, for the command line: `parse("2.1^2 * SE(x1, l=0.3) + SE(l=90) *
Periodic(period=fixed(1))")`.

The grammar is that of `kernel.formula()`: kernels called with numbers, `+`, `*`, `**` or `^`, `.on(0,
"age")`, `fixed(...)` and `param(...)`. Names of columns may come first: `SE(age, l=2)` is
`SE(l=2).on("age")`. `l` is short for lengthscale. A number in front of a kernel that says nothing of its
variance is that variance. Functions of yours stand under the names they are given with. Nothing else is
evaluated.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from mercer import hyperpriors
from mercer.hyperpriors import AbstractHyperprior
from mercer.kernels.base import AbstractKernel
from mercer.kernels.words.names import SHORT
from mercer.params import Param, fixed, param
from mercer.registry import Saved, installed, unknown

LONG = {short: name for name, short in SHORT.items()}
METHODS = {"on", "rescale", "warp", "normalised"}


# what a constructor may say of arguments that make no sense
_REFUSED = (TypeError, ValueError, AttributeError, ArithmeticError, LookupError)


class KernelSyntaxError(ValueError):
    """A text that is not a kernel, or one with values it cannot have; says where it goes wrong."""


def parse(text: str, functions: Mapping[str, Callable] | None = None) -> AbstractKernel:
    """The kernel a formula describes. `functions`: your own functions in it, by name.

    >>> parse("2.1^2 * SE(x1, l=0.3) + Periodic(period=1)")
    >>> parse("Warp(SE(l=1), function=u)", functions={"u": u})
    """
    if len(text) > 100_000:
        raise KernelSyntaxError("the kernel formula is longer than 100,000 characters.")
    source = re.sub(
        r"'[^']*'|\"[^\"]*\"|\^", lambda found: "**" if found[0] == "^" else found[0], text.strip()
    )
    try:
        value = _Reader(source, functions or {}).read(_tree(source))
    except RecursionError:
        raise KernelSyntaxError(f"cannot read the kernel {text!r}: it is nested too deeply.") from None
    if not isinstance(value, AbstractKernel):
        raise KernelSyntaxError(f"{text!r} is {_kind(value)}, not a kernel; for example SE(lengthscale=1.0).")
    return value


def _tree(source: str) -> ast.expr:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source, mode="eval").body
    except SyntaxError as error:
        raise KernelSyntaxError(f"cannot read the kernel {source!r}{_place(error)}: {error.msg}.") from None
    except (ValueError, MemoryError) as error:
        raise KernelSyntaxError(f"cannot read the kernel {source!r}: {error}.") from None


def _place(error: SyntaxError) -> str:
    """Where Python's parser stopped, in words."""
    rest = (error.text or "")[max((error.offset or 1) - 1, 0) :].strip()
    return f", at {rest[:20]!r}" if rest else ", at its end"


class _Reader:
    def __init__(self, text: str, functions: Mapping[str, Callable]):
        self.text, self.functions = text, functions
        # kernels that said nothing of their variance, and how to make them with one
        self.bare: list[tuple[AbstractKernel, Callable]] = []

    def fail(self, node, message: str):
        where = ast.get_source_segment(self.text, node) or ""
        return KernelSyntaxError(f"in the kernel {self.text!r}, at {where!r}: {message}")

    def read(self, node: ast.expr) -> Any:
        """The value of a part; what goes wrong in it is said with its text."""
        try:
            return self.value(node)
        except KernelSyntaxError:
            raise
        except _REFUSED as error:
            said = str(error).replace(".__init__()", "").rstrip(".") or type(error).__name__
            raise self.fail(node, f"{said}.") from error

    def value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.BinOp):
            return self.operation(node)
        if isinstance(node, ast.Call):
            return self.method(node) if isinstance(node.func, ast.Attribute) else self.call(node)
        if isinstance(node, ast.Constant) and (
            node.value is None or isinstance(node.value, (int, float, str))
        ):
            return self.moderate(node, node.value)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.number(node.operand)
        if isinstance(node, (ast.List, ast.Tuple)):
            return [self.read(e) for e in node.elts]
        if isinstance(node, ast.Name):
            return self.name(node)
        raise self.fail(node, "only kernels, numbers, +, *, ** and .on(...) are understood.")

    def name(self, node):
        if node.id in self.functions:
            from mercer.kernels.algebra.functions import Function

            return Function(self.functions[node.id], node.id)
        if node.id == "inf":
            return math.inf
        hint = f"if it is a function of yours, give functions={{{node.id!r}: ...}}"
        if _known(node.id) is not None:
            hint = f"write {node.id}(...)"
        raise self.fail(node, f"the name {node.id} means nothing here; {hint}.")

    def number(self, node):
        value = self.read(node)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise self.fail(node, "expected a number.")
        return value

    # -- operators -------------------------------------------------------------------------------------------

    def operation(self, node):
        left, right = self.read(node.left), self.read(node.right)
        for side, value in ((node.left, left), (node.right, right)):
            if not isinstance(value, (AbstractKernel, Param, int, float)) or isinstance(value, bool):
                raise self.fail(side, f"expected a kernel or a number, this is {_kind(value)}.")
        kernels = isinstance(left, AbstractKernel), isinstance(right, AbstractKernel)
        if any(kernels):
            if isinstance(node.op, ast.Add):
                return left + right
            if isinstance(node.op, ast.Mult):
                return (
                    left * right
                    if all(kernels)
                    else self.scaled(*((right, left) if kernels[0] else (left, right)))
                )
            if isinstance(node.op, ast.Pow) and kernels == (True, False):
                return left**right
            raise self.fail(node, "only +, * and ** combine kernels.")
        if Param in map(type, (left, right)):
            raise self.fail(node, "fixed(...) and param(...) hold the final value: do the arithmetic inside.")
        return self.arithmetic(node, left, right)

    def arithmetic(self, node, left, right):
        if isinstance(node.op, ast.Pow) and not (abs(left) < 1e150 and abs(right) < 100):
            raise self.fail(node, "the power is too large.")
        operations = {
            ast.Add: lambda: left + right,
            ast.Sub: lambda: left - right,
            ast.Mult: lambda: left * right,
            ast.Div: lambda: left / right,
            ast.Pow: lambda: left**right,
        }
        if type(node.op) not in operations:
            raise self.fail(node, "only +, -, *, / and ** combine numbers.")
        value = operations[type(node.op)]()
        if isinstance(value, complex):
            raise self.fail(node, "this is not a real number.")
        return self.moderate(node, value)

    def moderate(self, node, value):
        if isinstance(value, int) and abs(value) > 10**300:
            raise self.fail(node, "this number is too large.")
        return value

    def scaled(self, scale, kernel: Any) -> AbstractKernel:
        """A number before a simple kernel that says nothing of its variance is the variance;
        otherwise it multiplies.
        """
        make = self.maker(kernel)
        return scale * kernel if make is None or isinstance(scale, Param) else make(scale)

    # -- calls -----------------------------------------------------------------------------------------------

    def method(self, node):
        kernel = self.read(node.func.value)
        if not isinstance(kernel, AbstractKernel) or node.func.attr not in METHODS or node.keywords:
            raise self.fail(
                node, f"a kernel can be followed by {', '.join(f'.{m}(...)' for m in sorted(METHODS))}."
            )
        out = getattr(kernel, node.func.attr)(*[self.read(a) for a in node.args])
        return self.moved(out, kernel) if node.func.attr == "on" else out

    def moved(self, on: Any, inner: AbstractKernel) -> AbstractKernel:
        """A choice of columns: a number in front of it is still the inner kernel's variance."""
        make = self.maker(inner)
        if make is not None:
            self.bare.append((on, lambda variance: make(variance).on(*on.columns)))
        return on

    def maker(self, kernel) -> Callable | None:
        return next((make for bare, make in self.bare if bare is kernel), None)

    def call(self, node):
        if not isinstance(node.func, ast.Name):
            raise self.fail(node, "only kernels can be called.")
        name = node.func.id
        columns = [a.id for a in node.args if self.is_column(a)]
        if not all(map(self.is_column, node.args[: len(columns)])):
            raise self.fail(node, "columns come first: SE(age, l=2).")
        arguments = [self.read(a) for a in node.args[len(columns) :]]
        named = {LONG.get(k.arg, k.arg): self.read(k.value) for k in node.keywords if k.arg}
        if len(named) != len(node.keywords):
            raise self.fail(node, "an argument is given twice, or with **.")
        if name in ("fixed", "param"):
            return self.hyperparameter(node, name, columns + arguments, named)
        if name in hyperpriors.__all__ and _is_prior(made := getattr(hyperpriors, name)):
            return made(*map(_tuples, arguments), **{k: _tuples(v) for k, v in named.items()})
        made = _known(name)
        if made is None:
            raise self.fail(node, unknown("kernel", name, _all_known()))
        value = made(*arguments, **named)
        if (
            isinstance(value, AbstractKernel)
            and value.leads()
            and not _mentions_variance(made, arguments, named)
        ):
            self.bare.append((value, lambda variance: made(*arguments, **named, variance=variance)))
        if not columns:
            return value
        if not isinstance(value, AbstractKernel):
            raise self.fail(node, f"{name} takes no columns.")
        return self.moved(value.on(*columns), value)

    def is_column(self, node) -> bool:
        return isinstance(node, ast.Name) and node.id not in self.functions and node.id != "inf"

    def hyperparameter(self, node, name, arguments, named):
        if len(arguments) != 1 or set(named) - ({"bounds", "tie", "prior"} if name == "param" else set()):
            more = ", bounds=(low, high), tie='name', prior=..." if name == "param" else ""
            raise self.fail(node, f"{name}(value{more}) takes one value.")
        if "bounds" in named:
            named["bounds"] = self.bounds(node, named["bounds"])
        if not isinstance(named.get("prior"), AbstractHyperprior | None):
            raise self.fail(node, f"a prior is one of {[n for n in hyperpriors.__all__ if n[0].isupper()]}.")
        if not isinstance(named.get("tie"), str | None):
            raise self.fail(node, "tie is a name: tie='l'.")
        return fixed(arguments[0]) if name == "fixed" else param(arguments[0], **named)

    def bounds(self, node: ast.expr, given: Any) -> tuple[float, float]:
        pair = isinstance(given, list) and len(given) == 2
        if not pair or not all(type(bound) in (int, float) for bound in given):
            raise self.fail(node, "bounds are two numbers: bounds=(0.1, 10).")
        return given[0], given[1]


def _known(name: str) -> Any:
    """What a formula may call by this name: Mercer's own, or a kernel that another package registered."""
    from mercer import kernels

    if name in kernels.__all__:
        return value if _callable(value := getattr(kernels, name)) else None
    return installed(name, AbstractKernel)


def _all_known() -> list[str]:
    from mercer import kernels

    return [name for name in kernels.__all__ if name[0].isupper() and _callable(getattr(kernels, name))]


def _callable(value) -> bool:
    """Kernels, the functions and graphs inside them, and what looks like a kernel but is refused with its
    reason; not what operators make.
    """
    final = isinstance(value, type) and issubclass(value, Saved) and not value.__name__.startswith("Abstract")
    if final and value.__name__ in ("Sum", "Product", "Scale", "Power", "On"):
        return False
    return final or (inspect.isfunction(value) and value.__name__[0].isupper())


def _is_prior(value) -> bool:
    return (
        isinstance(value, type) and issubclass(value, AbstractHyperprior) and value is not AbstractHyperprior
    )


def _mentions_variance(made, arguments, named) -> bool:
    return "variance" in inspect.signature(made).bind(*arguments, **named).arguments


def _tuples(value):
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _kind(value) -> str:
    if isinstance(value, Param):
        return "a hyperparameter"
    if isinstance(value, (int, float)):
        return "a number"
    return f"{value!r}"
