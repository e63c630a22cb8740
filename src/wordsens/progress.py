"""How far a long computation is: a bar on a terminal, lines with rate and time left in a log.

Whoever knows the size of the work opens ``track``; code below it that knows how its own part
divides says so with ``stage`` and ``advance``, without knowing what the whole is.  Where nobody
tracks, as in a library call, these cost a comparison and say nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

FIRST, INTERVAL = 5.0, 10.0  # seconds until the first line, and between lines


class _Work:
    """A tracked computation of ``total`` units; ``position`` of them are done."""

    def __init__(self, what: str, total: float, unit: str, done: float) -> None:
        self.what, self.total, self.unit = what, total, unit
        self.position = self.begun = self.low = float(done)
        self.span = total - done
        self.started = time.monotonic()
        self.next = self.started + FIRST
        self.bar: Any = None
        if sys.stderr.isatty():
            from tqdm import tqdm

            shape = "{desc} {percentage:3.0f}%|{bar}| [{elapsed}, {remaining} left{postfix}]"
            # A bar of its own appears once the work turns out to be long.
            self.bar = tqdm(
                total=total, initial=done, desc=what, bar_format=shape, delay=FIRST, leave=False
            )

    def at(self, position: float) -> None:
        advance, self.position = position - self.position, position
        if self.bar is not None:
            self.bar.update(advance)
        now = time.monotonic()
        if now >= self.next:
            self.next = now + INTERVAL
            self._say(self._line(now))

    def finish(self) -> None:
        if self.bar is not None:
            self.bar.close()
        took = time.monotonic() - self.started
        if took >= FIRST:
            self._say(f"{self.what}: {self.total:g} {self.unit} in {_duration(took)}")

    def _line(self, now: float) -> str:
        rate = (self.position - self.begun) / (now - self.started)
        line = f"{self.what}: {self.position:.3g} of {self.total:g} {self.unit}"
        if rate <= 0:
            return line
        speed = f"{rate:.2g}/s" if rate >= 0.1 else f"{rate * 60:.2g}/min"
        return f"{line}, {speed}, about {_duration((self.total - self.position) / rate)} left"

    def _say(self, line: str) -> None:
        if self.bar is None:
            print(line, file=sys.stderr, flush=True)
        elif hasattr(sys.stderr, "note"):  # the bar is for the terminal, the line for the log
            sys.stderr.note(line + "\n")


_current: ContextVar[_Work | None] = ContextVar("wordsens progress", default=None)


@contextmanager
def track(what: str, total: float, unit: str, done: float = 0) -> Iterator[None]:
    """Report on the work done inside, ``total`` units of which ``done`` are there already."""
    work = _Work(what, total, unit, done)
    token = _current.set(work)
    try:
        yield
        work.finish()
    finally:
        _current.reset(token)
        if work.bar is not None:
            work.bar.close()


@contextmanager
def tracked(what: str, total: float, unit: str) -> Iterator[None]:
    """As ``track``, where nobody tracks the work that this one is a part of."""
    if _current.get() is not None:
        yield
        return
    with track(what, total, unit):
        yield


@contextmanager
def stage(part: float) -> Iterator[None]:
    """What is done inside is this share of the enclosing work, whatever is said of it inside."""
    work = _current.get()
    if work is None:
        yield
        return
    outer, work.low = (work.low, work.span), work.position
    work.span *= part
    end = work.low + work.span
    yield
    work.low, work.span = outer
    work.at(end)


def advance(done: float, of: float) -> None:
    """So much of the enclosing work is done."""
    work = _current.get()
    if work is not None:
        work.at(work.low + work.span * done / of)


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
