"""Sentences of kernels: sums of products of parts, a change from one sum to another, and the noise.

    periodic(0)*smooth(0) + linear(0)
    change(0: smooth(0) | linear(0)) ~ student-t

A sentence says which structure a function has, not how long its length-scales are: two sentences of equal
structure are equal, whatever values were learned. Values ride along, so that a sentence made from a fitted
one starts where that ended. Columns are numbers; what they are called is for `words`.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

Values = Mapping[str, float]

LOCAL = ("smooth", "very-smooth", "rough")  # Matern 5/2, SE, Matern 3/2: the default first
HOW = dict(zip(LOCAL, ("smoothly", "very smoothly", "roughly"), strict=True))
ALONE = ("step",)  # in no product
FACTOR = ("growth",)  # in products only
KINDS = (*LOCAL, "linear", "periodic", *ALONE, *FACTOR)
NOISES = ("gaussian", "student-t")
MOST_PARTS = 8  # of a sentence; of several columns as many more as there are
MOST_FACTORS = 3  # of a product


@dataclasses.dataclass(frozen=True)
class Part:
    """One kernel on some columns.

    kind: "smooth", "very-smooth" and "rough" (functions of the columns together), "linear", "periodic",
    "step" (one level before a place, another after it), or "growth", a factor: what it multiplies has a size
    that is a straight line in the column, zero at a place that is learned.
    """

    kind: str
    columns: tuple[int, ...]
    values: Values = dataclasses.field(default_factory=dict, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.kind}({','.join(map(str, self.columns))})"


@dataclasses.dataclass(frozen=True)
class Product:
    """Parts that are multiplied, with one variance."""

    parts: tuple[Part, ...]
    values: Values = dataclasses.field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(sorted(self.parts, key=_rank)))

    def __str__(self) -> str:
        return "*".join(map(str, self.parts))


@dataclasses.dataclass(frozen=True)
class Change:
    """One sum of products before a place of a column, another after it."""

    before: tuple[Product, ...]
    after: tuple[Product, ...]
    column: int
    values: Values = dataclasses.field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for side in ("before", "after"):
            object.__setattr__(self, side, tuple(sorted(getattr(self, side), key=str)))

    def __str__(self) -> str:
        sides = (" + ".join(map(str, side)) or CONSTANT for side in (self.before, self.after))
        return f"change({self.column}: {' | '.join(sides)})"


Term = Product | Change
CONSTANT = "constant"  # the sentence without terms


@dataclasses.dataclass(frozen=True)
class Sentence:
    """A sum of terms, and the noise; without terms a constant.

    >>> sentence = Sentence.read("periodic(0)*smooth(0) + linear(0)")
    >>> str(sentence), sentence.size
    """

    terms: tuple[Term, ...] = ()
    noise: str = NOISES[0]
    values: Values = dataclasses.field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", tuple(sorted(self.terms, key=str)))

    def __str__(self) -> str:
        terms = " + ".join(map(str, self.terms)) or CONSTANT
        return terms if self.noise == NOISES[0] else f"{terms} ~ {self.noise}"

    @property
    def size(self) -> int:
        """How many parts there are; a change counts as one, and so does noise that is not Gaussian."""
        return sum(map(_size, self.terms)) + (self.noise != NOISES[0])

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts, in order."""
        return tuple(p for product in _products(self.terms) for p in product.parts)

    @property
    def changes(self) -> bool:
        """Whether one of the terms is a change."""
        return any(isinstance(term, Change) for term in self.terms)

    def with_values(
        self, of_part: Callable[[Part], Values], of_change: Callable[[Change], Values]
    ) -> Sentence:
        """The same sentence whose parts and changes have other values."""

        def product(term: Product) -> Product:
            parts = tuple(dataclasses.replace(p, values=of_part(p)) for p in term.parts)
            return dataclasses.replace(term, parts=parts)

        def change(term: Change) -> Change:
            before, after = (tuple(map(product, side)) for side in (term.before, term.after))
            return dataclasses.replace(term, before=before, after=after, values=of_change(term))

        terms = tuple(change(t) if isinstance(t, Change) else product(t) for t in self.terms)
        return dataclasses.replace(self, terms=terms)

    def bare(self) -> Sentence:
        """The same sentence without values."""
        return Sentence.read(str(self))

    @classmethod
    def read(cls, text: str) -> Sentence:
        """The sentence that `str` writes so."""
        body, _, noise = text.partition("~")
        noise = noise.strip() or NOISES[0]
        if noise not in NOISES:
            raise ValueError(f"noise must be one of {', '.join(NOISES)}, got {noise!r}.")
        return cls(_read_sum(body.strip()), noise)


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """Which parts there may be: the number of columns, those that lines, seasons and changes go along, and
    those along which the size of other parts may grow.
    """

    columns: int
    lines: tuple[int, ...] = ()
    growths: tuple[int, ...] = ()
    seasons: tuple[int, ...] = ()
    changes: tuple[int, ...] = ()
    noises: tuple[str, ...] = NOISES[:1]

    def singles(self) -> list[Part]:
        """The parts that can stand alone."""
        found = [Part(LOCAL[0], (c,)) for c in range(self.columns)]
        found += [Part("linear", (c,)) for c in self.lines]
        found += [Part("periodic", (c,)) for c in self.seasons]
        return found + [Part("step", (c,)) for c in self.changes]

    def default(self) -> Sentence:
        """One function of all columns."""
        return dataclasses.replace(_sum(Part(LOCAL[0], tuple(range(self.columns)))), noise=self.noises[0])

    def starts(self) -> list[Sentence]:
        """Where a search begins: a constant, every part alone and, of several columns, all of them together:
        in one function, in a sum of functions of one each, in straight lines, and in lines and a function.
        """
        found = [Sentence(), *(_sum(part) for part in self.singles())]
        if self.columns > 1:
            every = tuple(range(self.columns))
            whole = Part(LOCAL[0], every)
            found += [_sum(whole), _sum(*(Part(LOCAL[0], (c,)) for c in every))]
            lines = [Part("linear", (c,)) for c in self.lines]
            found += [_sum(*lines), _sum(*lines, whole)]
        return [dataclasses.replace(one, noise=self.noises[0]) for one in dict.fromkeys(found)]


# ---------------------------------------------------------------------------------------------------- growing


def expand(sentence: Sentence, vocabulary: Vocabulary, changes: bool = True) -> list[Sentence]:
    """The sentences that are one step away, each once: a part added, multiplied, exchanged or left out; a
    column more or less in a function, two functions joined or one split; a change, unless `changes` says that
    there are to be no more; other noise.

    >>> expand(Sentence.read("linear(0)"), Vocabulary(1, lines=(0,), seasons=(0,)))
    """
    found = [dataclasses.replace(sentence, terms=terms) for terms in _grown(sentence.terms, vocabulary)]
    for i, term in enumerate(sentence.terms):
        if isinstance(term, Change):
            rest = sentence.terms[:i] + sentence.terms[i + 1 :]
            sides = [dataclasses.replace(term, before=side) for side in _sides(term.before, vocabulary)]
            sides += [dataclasses.replace(term, after=side) for side in _sides(term.after, vocabulary)]
            found += [dataclasses.replace(sentence, terms=(*rest, new)) for new in sides]
    if changes and not sentence.changes:
        found += [dataclasses.replace(sentence, terms=(new,)) for new in _changed(sentence, vocabulary)]
    found += [dataclasses.replace(sentence, noise=noise) for noise in vocabulary.noises]
    most = MOST_PARTS + vocabulary.columns - 1
    return [
        new for new in dict.fromkeys(found) if new != sentence and new.size <= most and _sensible(new.terms)
    ]


def _grown(terms: tuple[Term, ...], vocabulary: Vocabulary) -> Iterator[tuple[Term, ...]]:
    """Sums that are one step away, their changes as they are; the simpler ones first."""
    others = [terms[:i] + terms[i + 1 :] for i in range(len(terms))]
    yield from others
    for rest, term in zip(others, terms, strict=True):
        if isinstance(term, Product):
            yield from ((*rest, *new) for new in _varied(term, vocabulary))
    yield from _joined(terms)
    for part in vocabulary.singles():
        yield (*terms, Product((part,)))
    for rest, term in zip(others, terms, strict=True):
        if isinstance(term, Product):
            yield from ((*rest, new) for new in _multiplied(term, vocabulary))


def _joined(terms: tuple[Term, ...]) -> Iterator[tuple[Term, ...]]:
    """Sums in which two functions are one of the columns of both."""
    single = [(i, t) for i, t in enumerate(terms) if isinstance(t, Product) and _is_function(t)]
    for (i, a), (j, b) in itertools.combinations(single, 2):
        first, second = a.parts[0], b.parts[0]
        columns = tuple(sorted({*first.columns, *second.columns}))
        if len(columns) > 1:
            joined = Product((Part(first.kind, columns, {**second.values, **first.values}),), a.values)
            yield (*(t for k, t in enumerate(terms) if k not in (i, j)), joined)


def _multiplied(term: Product, vocabulary: Vocabulary) -> Iterator[Product]:
    """A product with one factor more, or less; a line in a product is a growth."""
    if any(
        p.kind in ALONE or (p.kind == "linear" and p.columns[0] not in vocabulary.growths) for p in term.parts
    ):
        return
    parts = tuple(Part("growth", p.columns) if p.kind == "linear" else p for p in term.parts)
    kinds = {p.kind for p in parts}
    if len(parts) < MOST_FACTORS:
        if not kinds & set(LOCAL):
            new = [Part(LOCAL[0], (c,)) for c in range(vocabulary.columns)]
            yield from (Product((*parts, part), term.values) for part in new)
        for c in vocabulary.growths:
            if not any(p.kind == "growth" and p.columns == (c,) for p in parts):
                yield Product((*parts, Part("growth", (c,))), term.values)
        for c in vocabulary.seasons:
            if not any(p.kind == "periodic" and p.columns == (c,) for p in parts):
                yield Product((*parts, Part("periodic", (c,))), term.values)
    if len(term.parts) > 1:
        yield from (
            Product(term.parts[:i] + term.parts[i + 1 :], term.values) for i in range(len(term.parts))
        )


def _varied(term: Product, vocabulary: Vocabulary) -> Iterator[tuple[Product, ...]]:
    """The product with one part exchanged, or its columns one more or one less, or split off."""
    for i, part in enumerate(term.parts):

        def with_part(new: Part, i: int = i) -> Product:
            return Product((*term.parts[:i], new, *term.parts[i + 1 :]), term.values)

        if part.kind in LOCAL:
            yield from (
                (with_part(dataclasses.replace(part, kind=kind)),) for kind in LOCAL if kind != part.kind
            )
        alone = len(term.parts) == 1
        if alone and part.kind == "linear":
            yield (Product((Part(LOCAL[0], part.columns),), term.values),)
        if alone and part.kind in LOCAL and len(part.columns) == 1:
            simple = (("linear", vocabulary.lines), ("step", vocabulary.changes))
            kinds = [kind for kind, along in simple if part.columns[0] in along]
            yield from ((Product((Part(kind, part.columns),), term.values),) for kind in kinds)
        if part.kind in LOCAL:
            more = [c for c in range(vocabulary.columns) if c not in part.columns]
            wider = [tuple(sorted((*part.columns, c))) for c in more]
            yield from ((with_part(dataclasses.replace(part, columns=columns)),) for columns in wider)
            if len(part.columns) > 1:
                for c in part.columns:
                    left = dataclasses.replace(part, columns=tuple(x for x in part.columns if x != c))
                    yield (with_part(left),)
                    yield with_part(left), Product((dataclasses.replace(part, columns=(c,)),))
                    if c in vocabulary.lines:
                        yield with_part(left), Product((Part("linear", (c,)),))


def _sides(terms: tuple[Product, ...], vocabulary: Vocabulary) -> Iterator[tuple[Product, ...]]:
    """What can stand on one side of a change in place of these terms."""
    for new in _grown(terms, vocabulary):
        yield tuple(t for t in new if isinstance(t, Product))


def _changed(sentence: Sentence, vocabulary: Vocabulary) -> Iterator[Change]:
    """The sentence before or after a change, itself or another part on the other side."""
    terms = tuple(t for t in sentence.terms if isinstance(t, Product))
    if not terms or any(p.kind in ALONE for p in sentence.parts):
        return
    others = [(Product((part,)),) for part in vocabulary.singles() if part.kind not in ALONE]
    for c in vocabulary.changes:
        for side in (terms, *others, ()):
            yield Change(terms, side, c)
            yield Change(side, terms, c)


def _sensible(terms: Sequence[Term]) -> bool:
    """No function of the same column more than twice, nothing else twice; no function of columns that are
    among those of another function, no step within a change.
    """
    functions = [set(t.parts[0].columns) for t in terms if isinstance(t, Product) and _is_function(t)]
    if any(a <= b and len(b) > 1 for a, b in itertools.permutations(functions, 2)):
        return False
    for product, count in Counter(t for t in terms if isinstance(t, Product)).items():
        if count > (2 if _is_function(product) else 1):
            return False
    for term in terms:
        if isinstance(term, Change):
            inner = [p for product in (*term.before, *term.after) for p in product.parts]
            if not inner or any(p.kind in ALONE for p in inner):  # nothing on either side is a step
                return False
            if not (_sensible(term.before) and _sensible(term.after)):
                return False
    return True


def _is_function(term: Product) -> bool:
    return len(term.parts) == 1 and term.parts[0].kind in LOCAL


def _sum(*parts: Part) -> Sentence:
    return Sentence(tuple(Product((part,)) for part in parts))


def _products(terms: Sequence[Term]) -> Iterator[Product]:
    for term in terms:
        if isinstance(term, Change):
            yield from (*term.before, *term.after)
        else:
            yield term


def _size(term: Term) -> int:
    return len(term.parts) if isinstance(term, Product) else 1 + sum(map(_size, (*term.before, *term.after)))


def _rank(part: Part) -> tuple[int, tuple[int, ...]]:
    """Seasons first, then functions, then what they are multiplied by."""
    order = ("periodic", *LOCAL, "linear", *ALONE, *FACTOR)
    return order.index(part.kind), part.columns


# ---------------------------------------------------------------------------------------------------- reading


def _read_sum(text: str) -> tuple[Term, ...]:
    return () if text in ("", CONSTANT) else tuple(_read_term(piece) for piece in _pieces(text, "+"))


def _read_term(text: str) -> Term:
    if match := re.fullmatch(r"change\((\d+):(.*)\)", text):
        before, after = (_read_sum(side.strip()) for side in match[2].split("|"))
        sides = [tuple(t for t in side if isinstance(t, Product)) for side in (before, after)]
        return Change(sides[0], sides[1], int(match[1]))
    return Product(tuple(_read_part(piece) for piece in _pieces(text, "*")))


def _read_part(text: str) -> Part:
    match = re.fullmatch(r"([a-z-]+)\(([\d, ]+)\)", text)
    if not match or match[1] not in KINDS:
        raise ValueError(f"{text!r} is not a part such as smooth(0): the kinds are {', '.join(KINDS)}.")
    return Part(match[1], tuple(int(c) for c in match[2].split(",")))


def _pieces(text: str, sign: str) -> list[str]:
    """The text between signs that stand in no brackets."""
    depth, pieces = 0, [""]
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == sign and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += letter
    return [piece.strip() for piece in pieces]


# -------------------------------------------------------------------------------------------------- in words


def words(sentence: Sentence, names: Sequence[str], units: bool = True) -> str:
    """What a sentence says, with the values it has learned where there are some.

    names: what the columns are called; units: say the values

    >>> words(Sentence.read("periodic(0)*growth(0) + linear(0)"), ["month"])
    'a straight line in month + a season of month whose size grows along month'
    """
    said = _sum_words(sentence.terms, names, units)
    return said if sentence.noise == NOISES[0] else f"{said}; noise of heavy tails ({sentence.noise})"


def _sum_words(terms: Sequence[Term], names: Sequence[str], units: bool) -> str:
    return " + ".join(_term_words(term, names, units) for term in terms) or "a constant"


def _term_words(term: Term, names: Sequence[str], units: bool) -> str:
    if isinstance(term, Change):
        where = _value(term.values, "location", " {:.5g}", units)
        before, after = (_sum_words(side, names, units) for side in (term.before, term.after))
        return f"[{before} until {names[term.column]}{where}, then {after}]"
    first, *others = term.parts
    said = _part_words(first, names, units)
    how: list[str] = []
    for part in others:
        columns = _listed(part.columns, names)
        if part.kind == "growth":
            how.append(f"whose size grows along {columns}")
        elif part.kind == "periodic":
            said += f" times {_part_words(part, names, units)}"
        elif first.kind == "periodic" and part.columns == first.columns:
            how.append(f"whose shape changes {HOW[part.kind]}")
        else:
            how.append(f"that varies {HOW[part.kind]} with {columns}")
    return f"{said} {' and '.join(how)}".rstrip()


def _part_words(part: Part, names: Sequence[str], units: bool) -> str:
    columns = _listed(part.columns, names)
    match part.kind:
        case "linear":
            return f"a straight line in {columns}"
        case "periodic":
            return f"a season of {columns}{_value(part.values, 'period', ' (period {:.4g})', units)}"
        case "step":
            return f"a step at {columns}{_value(part.values, 'location', ' {:.5g}', units)}"
        case "growth":
            return f"a growing line in {columns}"
        case _:
            together = " together" if len(part.columns) > 1 else ""
            return f"a {part.kind.replace('-', ' ')} function of {columns}{together}"


def _value(values: Values, name: str, form: str, units: bool) -> str:
    return form.format(values[name]) if units and name in values else ""


def _listed(columns: Sequence[int], names: Sequence[str]) -> str:
    *first, last = (names[c] for c in columns)
    return f"{', '.join(first)} and {last}" if first else last
