"""The inner loops: plain Torch functions that define them, and Triton kernels for CUDA devices.

``kernels.X`` holds the plain function, which is what runs on a CPU, and hands over to
``kernels.X_triton`` for float32 tensors on a CUDA device where Triton is installed.  Sums are taken
in another order there, so results agree to rounding.  ``WORDSENS_PLAIN=1`` in the environment keeps
the plain functions everywhere.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

OLDEST = (7, 0)  # compute capability that Triton compiles for


@cache
def has_triton() -> bool:
    return find_spec("triton") is not None


def fused(x: torch.Tensor) -> bool:
    """Whether x is a matter for a Triton kernel."""
    import torch

    return (
        x.is_cuda
        and x.dtype == torch.float32
        and os.environ.get("WORDSENS_PLAIN", "") in ("", "0")
        and has_triton()
        and torch.cuda.get_device_capability(x.device) >= OLDEST
    )
