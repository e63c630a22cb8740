"""What results of this package draw of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_points(
    values: torch.Tensor, universal: float | None, title: str, axes: Axes | None
) -> Axes:
    """S of every point beside √(nd/p); where ``universal`` is None, of every token of a text."""
    from wordsens.figures import style

    with style.context():
        axes = _axes(axes)
        if universal is None:
            axes.set_xlabel("token $i$")
            axes.set_ylabel(r"$\Vert x_i \Vert\,\Vert \nabla_{x_i} f \Vert$")
        else:
            axes.axhline(universal, label=r"$\sqrt{nd/p}$", **style.DASHED)
            axes.set_xlabel("point")
            axes.set_ylabel(r"input sensitivity $\mathcal{S}(x)$ (ratio)")
            axes.legend()
        axes.plot(range(len(values)), values.numpy(), "o", color=style.COLOURS[0])
        axes.set_ylim(bottom=0)
        axes.set_title(title)
    return axes


def plot_spectrum(eigenvalues: torch.Tensor, floor: float, axes: Axes | None) -> Axes:
    """The eigenvalues of K, the smallest first, above the floor of rounding."""
    from wordsens.figures import style

    with style.context():
        axes = _axes(axes)
        style.logarithmic(axes, "y")
        values = eigenvalues.abs().numpy()
        axes.plot(range(len(values)), values, ".", color=style.COLOURS[0])
        axes.axhline(floor, label="rounding", **style.DASHED)
        axes.set_xlabel("index of the eigenvalue")
        axes.set_ylabel(r"$|\lambda_i(K)|$")
        axes.legend()
    return axes


def _axes(axes: Axes | None) -> Axes:
    import matplotlib.pyplot as plt

    return axes if axes is not None else plt.subplots(figsize=(4.2, 3.4))[1]
