"""Questions that arrive together are answered by one prediction.

One thread computes. While it does, questions wait; then all that can be answered together are. Nobody waits
for company: a question that comes alone is computed at once.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import functools
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from mercer.app.server.answers import AbstractServed, Answer, Question
from mercer.app.server.rows import Rows
from mercer.progress import shown

__all__ = ["Batches"]

T = TypeVar("T")


class Batches:
    """The thread that asks a model.

    served: the model, which `replace` can exchange; rows: how many are computed at once, at most;
    counted: called with the number of questions and of rows of each prediction
    """

    def __init__(
        self, served: AbstractServed, rows: int = 1024, counted: Callable[[int, int], None] | None = None
    ) -> None:
        self.served, self._rows, self._counted = served, rows, counted
        self._waiting: collections.deque[tuple[Question, asyncio.Future[Any]]] = collections.deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mercer-predict")
        self._task: asyncio.Task[None] | None = None

    async def ask(self, question: Question) -> tuple[Answer, list[str]]:
        """Its answer, and what was warned of."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        if self._task is None:
            self._task = asyncio.create_task(self._drain())
        found: tuple[Answer, list[str]] = await future
        return found

    async def alone(self, work: Callable[[], T]) -> T:
        """Something else that the thread does, between predictions."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        """Let the thread end."""
        self._thread.shutdown(wait=False)

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                batch = self._next()
                questions = [question for question, _ in batch]
                work = functools.partial(answers, self.served, questions)
                for (_, future), found in zip(
                    batch, await loop.run_in_executor(self._thread, work), strict=True
                ):
                    if future.done():
                        continue  # who asked is gone
                    if isinstance(found, BaseException):
                        future.set_exception(found)
                    else:
                        future.set_result(found)
                if self._counted is not None:
                    self._counted(len(batch), sum(question.count for question in questions))
        finally:
            self._task = None

    def _next(self) -> list[tuple[Question, asyncio.Future[Any]]]:
        """The question that has waited longest, and those that go with it."""
        first = self._waiting.popleft()
        batch, rest, rows = [first], [], first[0].count
        key = first[0].key if self.served.together else None
        while key is not None and self._waiting:
            other = self._waiting.popleft()
            if other[0].key == key and rows + other[0].count <= self._rows:
                batch.append(other)
                rows += other[0].count
            else:
                rest.append(other)
        self._waiting.extendleft(reversed(rest))
        return batch


def answers(
    served: AbstractServed, questions: list[Question]
) -> list[tuple[Answer, list[str]] | BaseException]:
    """For each question its answer with what was warned of, or an error: by one prediction if all goes well,
    and by one for each where something is to be said, which would not be of all.
    """
    if len(questions) > 1:
        rows = [question.rows for question in questions if question.rows is not None]
        try:
            with warnings.catch_warnings(), shown("predicting", False):
                warnings.simplefilter("error")
                found = served.answer(dataclasses.replace(questions[0], rows=Rows.joined(rows)))
        except Exception:
            return [one for question in questions for one in answers(served, [question])]
        ends = [0]
        for part in rows:
            ends.append(ends[-1] + part.count)
        return [(found[a:b], notes(part)) for a, b, part in zip(ends[:-1], ends[1:], rows, strict=True)]
    (question,) = questions
    with warnings.catch_warnings(record=True) as caught, shown("predicting", False):
        warnings.simplefilter("always")
        try:
            found = served.answer(question)
        except Exception as error:
            return [error]
    said = [" ".join(str(w.message).split()) for w in caught]
    return [(found, list(dict.fromkeys(said + ([] if question.rows is None else notes(question.rows)))))]


def notes(rows: Rows) -> list[str]:
    """What is said of columns that the model does not know."""
    if not rows.ignored:
        return []
    return [f"columns that the model was not fitted to are ignored: {', '.join(rows.ignored)}."]
