"""An upper bound on what one word can do to a softmax attention layer.

With A the rows x_jᵀW/√d, t = A Δ moves the scores a_j and Σ_j t_j² ≤ ‖Δ‖² ‖A‖².  The change of row
j ≠ i is at most g_j = N_j(p)², N_j(p) = ‖(1−p) o_j + p x_i − φ_j‖ + p ‖Δ‖ and
p = σ(a_j + t_j − ℓ_j), so that by weak duality, for every λ ≥ 0,

    Σ_j ‖out_j − φ_j‖² ≤ Σ_j max_t [g_j(a_j + t) − λ t²] + λ ‖Δ‖² ‖A‖².

N_j is convex in p, so that between two values of p it is largest at one of them, and t² is
smallest at the one nearer to t = 0: the maximum over t is bounded interval by interval, with no
gap left to discretisation.  Row i is a mean of the x_k and v.
"""

from __future__ import annotations

from collections.abc import Callable

from wordsens.deferred import torch
from wordsens.kernels.constants import AttentionConstants
from wordsens.maps.attention.state import AttentionState

INTERVALS = 96  # of p between σ(−9) and σ(12)
SECTIONS = 24  # golden-section steps for log λ
GOLDEN = (5**0.5 - 1) / 2


def softmax_bound(
    state: AttentionState, constants: AttentionConstants, reach: float
) -> torch.Tensor:
    """sup_Δ ‖φ(X^i(Δ)) − φ(X)‖, ‖Δ‖ ≤ ``reach``, is at most this (T, P): RAF, one changed word."""
    c, sets = constants, constants.sets[:, 0]
    X, out = state.X.double(), state.output[:, 0].double()
    tokens = state.X[:, sets].double()  # x_i, (T, P, d)
    rows = state.queries[:, 0].double()  # A, (T, n, d)
    gram = rows @ rows.mT if rows.shape[1] <= rows.shape[2] else rows.mT @ rows
    lipschitz = reach**2 * torch.linalg.eigvalsh(gram)[:, -1]  # ‖Δ‖² ‖A‖², (T,)

    phi_x = tokens @ out.mT  # (T, P, n)
    share = c.share[:, 0, :, 0].double().squeeze(-2)
    r_x = share * (phi_x - (tokens * tokens).sum(-1, keepdim=True))
    t, _, s, j = c.heavy
    if len(t):
        r_x[t, s, j] = (c.surplus.double() * tokens[t, s]).sum(-1)
    rr, ro, oo = (x[:, 0, :, 0, 0].double().expand_as(phi_x) for x in (c.rr, c.ro, c.oo))
    o_x = phi_x + r_x
    apart = (tokens * tokens).sum(-1, keepdim=True) - 2 * o_x + oo  # ‖x_i − o_j‖²
    logit = torch.linspace(-9, 12, INTERVALS + 1, dtype=torch.float64, device=X.device)
    zero, one = logit.new_zeros(1), logit.new_ones(1)
    p = torch.cat([zero, torch.sigmoid(logit), one])
    square = rr[..., None] + 2 * p * (r_x - ro)[..., None] + p * p * apart[..., None]
    change = (square.clamp_min(0).sqrt() + p * reach) ** 2  # g at the ends of the intervals
    change = torch.maximum(change[..., 1:], change[..., :-1])
    others = c.others[:, 0, :, 0, 0].double()
    t_ends = logit + (others - tokens @ rows.mT)[..., None]  # t with a_j + t = ℓ_j + logit
    inside = torch.where(
        (t_ends[..., :-1] < 0) & (t_ends[..., 1:] > 0),
        0,
        torch.minimum(t_ends[..., :-1].abs(), t_ends[..., 1:].abs()),
    )
    # the first interval reaches down to t = −∞, the last up to +∞
    first, last = t_ends[..., :1].clamp_max(0), t_ends[..., -1:].clamp_min(0)
    nearest = torch.cat([first, inside, last], -1) ** 2
    outside = c.outside[:, 0, 0].double()  # (P, n)

    def dual(log_lambda: torch.Tensor) -> torch.Tensor:
        weight = log_lambda.exp()
        best = (change - weight[..., None, None] * nearest).amax(-1)
        return (best * outside).sum(-1) + weight * lipschitz[:, None]

    best = _least(dual, torch.zeros_like(phi_x[..., 0]))
    own_output = out[:, sets]  # φ_i, (T, P, d)
    far = torch.cdist(own_output, X)  # ‖x_k − φ_i‖, (T, P, n)
    own = torch.linalg.vector_norm(tokens - own_output, dim=-1) + reach
    row_i = torch.maximum((far * outside).amax(-1), own)
    return (best + row_i**2).sqrt().to(state.X.dtype)


def _least(dual: Callable[[torch.Tensor], torch.Tensor], like: torch.Tensor) -> torch.Tensor:
    """The least value met by a golden-section search over log λ, elementwise; any λ bounds."""
    low, high = torch.full_like(like, -14), torch.full_like(like, 14)
    a, b = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_a, at_b = dual(a), dual(b)
    best = torch.minimum(dual(low), torch.minimum(at_a, at_b))
    for _ in range(SECTIONS):
        left = at_a < at_b
        low, high = torch.where(left, low, a), torch.where(left, b, high)
        probe = torch.where(left, high - GOLDEN * (high - low), low + GOLDEN * (high - low))
        value = dual(probe)
        a, b, at_a, at_b = (
            torch.where(left, probe, b),
            torch.where(left, a, probe),
            torch.where(left, value, at_b),
            torch.where(left, at_a, value),
        )
        best = torch.minimum(best, value)
    return best
