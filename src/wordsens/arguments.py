"""What Python callers hand over, as detached tensors and plain numbers; else one line says why not.

Tensors are detached: a search makes its own gradients, and a graph kept inside a map would hold on
to every tensor behind it.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np

from wordsens.deferred import torch
from wordsens.errors import UserError, whole_number


def real_tensor(name: str, value: Any, *, finite: bool = True, graph: bool = False) -> torch.Tensor:
    """``value`` as a dense real tensor, detached unless ``graph``; else a UserError names it.

    Lists of Python's numbers and arrays of any layout keep all their digits.
    """
    try:
        tensor = torch.as_tensor(_plain(name, value))
        if tensor.dtype == torch.get_default_dtype() and not hasattr(value, "dtype"):
            tensor = torch.as_tensor(value, dtype=torch.float64)
    except UserError:
        raise
    except (TypeError, ValueError, RuntimeError, IndexError, OverflowError, KeyError) as error:
        raise UserError(f"{name} is no array of numbers: {error}") from None
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
        raise UserError(f"{name} is no dense array of numbers; convert it, as with .to_dense()")
    if tensor.is_complex():
        raise UserError(f"{name} is complex; take real numbers, as its real part")
    tensor = tensor if graph else tensor.detach()
    if finite and not all_finite(tensor):
        raise UserError(f"{name} holds nan or inf; look for them in what it was made from")
    return tensor


def all_finite(tensor: torch.Tensor) -> bool:
    """Whether no entry is nan or inf: told by the sum, without memory, unless that overflows."""
    return bool(tensor.sum().isfinite() or tensor.isfinite().all())


def _plain(name: str, value: Any) -> Any:
    """What torch takes as it is: arrays of its own types, writable, in order; else the value."""
    if isinstance(value, torch.Tensor) or not hasattr(value, "__array__"):
        return value
    if np.ma.isMaskedArray(value) and np.ma.getmaskarray(value).any():
        raise UserError(f"{name} has masked entries, which are no numbers; fill or drop them")
    array = np.asarray(value)
    if (array.dtype.kind == "f" and array.dtype.itemsize > 8) or array.dtype.kind == "O":
        return array.astype(np.float64)
    return np.require(array, array.dtype.newbyteorder("="), ["C", "W"])


def largest_size(tensor: torch.Tensor) -> float:
    """The largest |entry|, in one pass; NaN where there is one, 0 of nothing."""
    low, high = tensor.detach().aminmax() if tensor.numel() else (0.0, 0.0)
    return max(-float(low), float(high))


def check_powers(name: str, tensor: torch.Tensor) -> None:
    """``UserError`` where squares of squares of a tensor's entries overflow, or are all zero."""
    limits = torch.finfo(tensor.dtype)
    largest = largest_size(tensor)
    if largest and not limits.tiny**0.25 < largest < limits.max**0.25:
        kind = str(tensor.dtype).removeprefix("torch.")
        raise UserError(
            f"{name} has entries up to {largest:.3g}, powers of which are no {kind} "
            "numbers; scale it"
        )


def positive_number(name: str, value: Any, most: float = 1e15) -> float:
    """``value`` as a float above 0 and up to ``most``, the squares of which are numbers."""
    number = real_number(name, value)
    if not 0 < number <= most:
        raise UserError(f"{name} = {value} must be a positive number, at most {most:g}")
    return number


def real_number(name: str, value: Any) -> float:
    """``value`` as a finite float: a Python or NumPy number, or an array or tensor of one."""
    if hasattr(value, "item") and getattr(value, "size", 0) is not None:
        try:
            value = value.item()
        except (RuntimeError, ValueError):
            raise UserError(f"{name} has more than one entry; give one number") from None
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not math.isfinite(value):
        raise UserError(f"{name} = {value!r} is no finite number; give one such as 1 or −1")
    return float(value)


def single(position: Any) -> int | None:
    """``position`` as an int where it is one whole number of any kind; None where it is several."""
    if isinstance(position, Integral) or getattr(position, "ndim", None) == 0:
        return whole_number("position", getattr(position, "item", lambda: position)(), None)
    return None


def several(position: Any) -> list[int]:
    """A list, array or tensor of whole numbers as positions."""
    listed = position.tolist() if hasattr(position, "tolist") else position
    if not isinstance(listed, list | tuple | range):
        raise UserError(f"position = {position!r} must be a whole number or a list of them")
    return [whole_number("position", each, None) for each in listed]


def device_of(device: Any) -> torch.device:
    """A torch.device by its name; UserError where there is no such device."""
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
        return chosen
    except (RuntimeError, TypeError, ValueError, AssertionError, NotImplementedError) as error:
        # What torch raises of a device depends on which it is: meta and others are not implemented.
        reason = str(error).split("\n")[0]
        raise UserError(f"device = {device!r} cannot be used: {reason}") from None


def token_ids(name: str, value: Any, vocabulary: int) -> torch.Tensor:
    """Token ids, (n,) or (T, n), as int64, each below ``vocabulary``."""
    ids = real_tensor(name, value)
    if not ids.numel():
        raise UserError(f"{name} is empty; give token ids (n,) or (T, n) of what is not empty")
    if ids.is_floating_point() or ids.dtype == torch.bool or ids.ndim not in (1, 2):
        raise UserError(f"{name} must be token ids, whole numbers of shape (n,) or (T, n)")
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= vocabulary:
        raise UserError(
            f"{name} holds the token id {low if low < 0 else high}; allowed: 0 to {vocabulary - 1}"
        )
    return ids.long()
