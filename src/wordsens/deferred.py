"""Torch, imported when it is first used.

A map says in its class what a configuration may ask of it, and a workflow reads that whenever it
is parsed.  Importing Torch takes seconds, so modules that define maps write

    from wordsens.deferred import torch

and pay only once they compute.  A plain ``import torch`` works as well, and costs its seconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch as torch
else:

    class _Deferred:
        """Stands for a module; the first attribute asked of it imports it."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            found = getattr(import_module(self._name), attribute)
            vars(self)[attribute] = found  # innermost loops ask a thousand times a search
            return found

    torch = _Deferred("torch")

__all__ = ["torch"]
