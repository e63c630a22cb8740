"""Input sensitivities and tangent kernels, drawn for a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from wordsens.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def input_sensitivity(found: Any, axes: Axes | None) -> Axes:
    """S of every point beside √(nd/p); for texts, of every token, averaged over the texts."""
    title = ", ".join(filter(None, (found.features, found.activation)))
    if found.by_token is None:
        values = torch.as_tensor(found.sensitivity).reshape(-1)
        return plot_points(values, found.universal, title, axes)
    tokens = found.by_token.reshape(-1, found.by_token.shape[-1]).mean(0)
    return plot_points(tokens, None, title, axes)


def tangent_kernel(found: Any, axes: Axes | None) -> Axes:
    """The spectrum of K above the floor of rounding."""
    return plot_spectrum(found.eigenvalues, found.floor, axes)


def plot_points(
    values: torch.Tensor, universal: float | None, title: str, axes: Axes | None
) -> Axes:
    """S of every point beside √(nd/p); where ``universal`` is None, of every token of a text."""
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
