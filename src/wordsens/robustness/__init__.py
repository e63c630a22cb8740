"""Robust or not: input sensitivity of trained random and tangent features, and their conditioning.

After M. Mondelli's talk "Optimization, Robustness and Attention in Deep Learning" (2024), which
sums up Bombari, Amani and Mondelli (2022) and Bombari, Kiyani and Mondelli (2023).

    interpolator        the minimum-norm interpolator in kernel form: output and gradient
    input_sensitivity   S(x) = ‖x‖ ‖∇f(x)‖
    attack              the largest change of f within ‖Δ‖ ≤ δ‖x‖
    texts               the same for feature maps of texts
    tangent_kernel      the tangent kernel of a deep network and its smallest eigenvalue
    flow                gradient flow of a small network
"""
