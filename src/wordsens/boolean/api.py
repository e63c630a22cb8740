"""``wordsens.profile``: the sensitivity profile of any function of bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from wordsens.arguments import real_tensor
from wordsens.boolean import tables
from wordsens.boolean.languages import language
from wordsens.boolean.profile import Profile
from wordsens.boolean.recogniser import Recogniser
from wordsens.boolean.sampling import (
    TOGETHER,
    Function,
    function_sensitivities,
    recogniser_sensitivities,
    sample_strings,
)
from wordsens.errors import UserError, whole_number
from wordsens.randomness import Stream


def profile(f: Any, N: int | None = None, *, strings: int | None = None, seed: int = 0) -> Profile:
    """The sensitivity profile (Definition 2.6) of ``f`` on strings of N bits.

    ``f`` is a language by name (``"parity"``, ``"sparse-majority-5"``, …), a ``Recogniser`` of one
    model, a truth table of 2^N values 0 and 1 (x_1 is the highest bit of a string's row), or any
    callable that takes bits (B, N), a tensor of 0 and 1, to B values 0 and 1.  Exact by default:
    in closed form for languages, else from all strings where N ≤ 20.  ``strings`` samples as many
    strings instead, each with all its N flips.  ``seed`` names the sample, and the bits or labels
    of sparse and random languages.

        wordsens.profile("majority", 15).average
        wordsens.profile(lambda bits: bits[:, 0] ^ bits[:, -1], 12).counts

    Raises UserError where N does not fit, a language is unknown or values are not 0 and 1.
    """
    if strings is not None:
        whole_number("strings", strings)
    if isinstance(f, str):
        N = _needed(N, f)
        known = language(f, N, Stream(seed, "language", language=f, N=N))
        if known.counts is not None and strings is None:
            return Profile.of(f, known.counts)
        return _of_function(f, known.accepts, N, strings, seed)
    if isinstance(f, Recogniser):
        if f.models != 1:
            raise UserError(
                f"f holds {f.models} recognisers; take one, f.take([0]), or call profiles"
            )
        return profiles(f, _needed(N, "a recogniser"), strings=strings, seed=seed)[0]
    if callable(f):
        name = getattr(f, "__name__", type(f).__name__).replace("<lambda>", "function")
        return _of_function(name, f, _needed(N, name), strings, seed)
    return _of_table(f, N, strings)


def profiles(f: Recogniser, N: int, *, strings: int | None = None, seed: int = 0) -> list[Profile]:
    """``profile`` of every model of a batch of recognisers."""
    if strings is None:
        found = tables.table_profile(tables.truth_table(f, N))
    else:
        bits = sample_strings(Stream(seed, "strings", N=N), strings, N)
        found = tables.profile_counts(recogniser_sensitivities(f, bits), N)
    return [
        Profile.of("recogniser", row[:-1], exact=strings is None, unclassified=row[-1])
        for row in found.tolist()
    ]


def _of_function(name: str, f: Function, N: int, strings: int | None, seed: int) -> Profile:
    def values(bits: torch.Tensor) -> torch.Tensor:
        return _zeros_and_ones(f(bits), len(bits), name)

    if strings is None:
        length = tables.exact_length(N)
        size = max(1, TOGETHER // length)
        rows = range(0, 2**length, size)
        parts = [tables.strings(length, r, min(r + size, 2**length)) for r in rows]
        table = torch.cat([values(part.long()) for part in parts])
        return Profile.of(name, tables.table_profile(table[None])[0, :-1].tolist())
    bits = sample_strings(Stream(seed, "strings", N=N), strings, N).long()
    found = tables.profile_counts(function_sensitivities(values, bits)[None], N)
    return Profile.of(name, found[0, :-1].tolist(), exact=False)


def _of_table(f: Any, N: int | None, strings: int | None) -> Profile:
    try:
        table = torch.as_tensor(np.asarray(f)).flatten()
    except (TypeError, ValueError):
        raise UserError(
            f"f = {f!r} must be a language's name, a recogniser, a callable or a truth table"
        ) from None
    if strings is not None:
        raise UserError("strings: a truth table is profiled exactly; leave strings out")
    if N is not None and len(table) != 2 ** whole_number("N", N):
        raise UserError(f"f has {len(table)} values, but a truth table of N = {N} bits has {2**N}")
    values = _zeros_and_ones(table, len(table), "the truth table")
    return Profile.of("truth table", tables.table_profile(values[None])[0, :-1].tolist())


def _needed(N: int | None, name: str) -> int:
    if N is None:
        raise UserError(f"N: say how many bits the strings of {name} have")
    return whole_number("N", N)


def _zeros_and_ones(values: Any, count: int, name: str) -> torch.Tensor:
    values = real_tensor(f"what {name} gave", values, finite=False).cpu()
    if values.shape != (count,):
        raise UserError(f"{name} gave {tuple(values.shape)} for {count} strings; want ({count},)")
    if not ((values == 0) | (values == 1)).all():
        raise UserError(f"{name} gave values other than 0 and 1; a Boolean function has no others")
    return values.to(torch.int8)
