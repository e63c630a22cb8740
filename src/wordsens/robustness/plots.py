"""What results of this package draw of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from wordsens.robustness.input_sensitivity import InputSensitivity
    from wordsens.robustness.tangent_kernel import TangentKernel


def plot_sensitivity(result: InputSensitivity, axes: Axes | None = None) -> Axes:
    """S of every point beside √(nd/p); for texts, of every token, averaged over the texts."""
    from wordsens.figures import style

    with style.context():
        axes = _axes(axes)
        if result.by_token is not None:
            values = result.by_token.reshape(-1, result.by_token.shape[-1]).mean(0)
            axes.set_xlabel("token $i$")
            axes.set_ylabel(r"$\Vert x_i \Vert\,\Vert \nabla_{x_i} f \Vert$")
        else:
            values = torch.as_tensor(result.sensitivity).reshape(-1)
            axes.axhline(result.universal, label=r"$\sqrt{nd/p}$", **style.DASHED)
            axes.set_xlabel("point")
            axes.set_ylabel(r"input sensitivity $\mathcal{S}(x)$ (ratio)")
            axes.legend()
        axes.plot(range(len(values)), values.numpy(), "o", color=style.COLOURS[0])
        axes.set_ylim(bottom=0)
        axes.set_title(", ".join(filter(None, (style.title(result.features), result.activation))))
    return axes


def plot_spectrum(result: TangentKernel, axes: Axes | None = None) -> Axes:
    """The eigenvalues of K, the smallest first, above the floor of rounding."""
    from wordsens.figures import style

    with style.context():
        axes = _axes(axes)
        style.logarithmic(axes, "y")
        values = result.eigenvalues.abs().numpy()
        axes.plot(range(len(values)), values, ".", color=style.COLOURS[0])
        axes.axhline(result.floor, label="rounding", **style.DASHED)
        axes.set_xlabel("index of the eigenvalue")
        axes.set_ylabel(r"$|\lambda_i(K)|$")
        axes.legend()
    return axes


def _axes(axes: Axes | None) -> Axes:
    import matplotlib.pyplot as plt

    return axes if axes is not None else plt.subplots(figsize=(4.2, 3.4))[1]
