"""Cells of the generalization studies: the law of joint random features, arrays, table, figures."""

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from tests.figures.drawing import draw
from tests.studies.cells import complete
from wordsens.activations import activation
from wordsens.errors import UserError
from wordsens.glm import LeastSquares
from wordsens.maps import MapOptions, map_class
from wordsens.maps.random_features import RandomFeatures
from wordsens.randomness import Stream
from wordsens.results import write_cell
from wordsens.search.goals import evaluation
from wordsens.studies.generalization.cell import run
from wordsens.studies.generalization.table import searches_table

OWN = {
    "study": "test",
    "dataset": "synthetic",
    "map": "raf",
    "n": 8,
    "d": 12,
    "N": 15,
    "trials": 3,
    "seed": 1,
    "penalties": [0.0, 0.1],
    "tradeoff": [0.1, 0.5, 1.0, 2.0],
    "precision": "float64",
}


def made(**changes):
    return complete("generalization", **{**OWN, **changes})


SEEDS = 400
LEVEL = 1e-7  # of each comparison of laws; a handful are made


def batch(M, n, d):
    X = torch.randn(M, n, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return X / X.norm(dim=-1, keepdim=True) * d**0.5


def measured(Phi, changed):
    """Error and alignment of one change, from features of all samples and of the changed one."""
    Y = torch.tensor([1.0, -1, -1, 1, 1, -1]).double()
    around = LeastSquares(Phi[1:], Y[1:]).around(Phi[0], 1.0)
    found = evaluation(changed[None, None] @ around.u.mT, around)
    return found.err_retrained.item(), found.feature_alignment.item(), found.f_delta.item()


def joint_random_features(X, stream, k, phi):
    return RandomFeatures.draw_training(X, stream, MapOptions(width=k, activation=phi.name))


def joint_and_dense(joint=joint_random_features):
    n, d, k = 3, 4, 14
    X, phi = batch(6, n, d), activation("relu")
    delta = torch.full((d,), 0.8, dtype=torch.float64)
    moved = X[0].clone()
    moved[0] += delta
    ours, dense = [], []
    for seed in range(SEEDS):
        Phi, view = joint(X, Stream(seed, "joint"), k, phi)
        changed = view.features((X[0, 0] + delta)[None, None, None, None])[0, 0, 0]
        ours.append(measured(Phi, changed))
        V = Stream(seed, "dense").normal(k, n * d, dtype=torch.float64) / (n * d) ** 0.5
        whole = phi.value(torch.cat([X, moved[None]]).flatten(1) @ V.T)
        dense.append(measured(whole[:-1], whole[-1]))
    return np.array(ours), np.array(dense)


def test_joint_features_have_the_dense_law():
    ours, dense = joint_and_dense()
    for a, b in zip(ours.T, dense.T, strict=True):
        assert stats.ks_2samp(a, b).pvalue > LEVEL


def test_the_test_of_law_catches_a_token_block_of_its_own():
    def torn(X, stream, k, phi):
        Phi, view = joint_random_features(X, stream, k, phi)
        _, other = joint_random_features(X, stream.child("other"), k, phi)
        view.block = other.block
        return Phi, view

    ours, dense = joint_and_dense(torn)
    assert min(stats.ks_2samp(a, b).pvalue for a, b in zip(ours.T, dense.T, strict=True)) < LEVEL


def test_joint_features_second_moments_and_view():
    X, k = batch(5, 4, 6), 200_000
    Phi, view = joint_random_features(X, Stream(0, "moments"), k, activation("identity"))
    G = X.flatten(1) @ X.flatten(1).T / 24
    # each entry is a mean of k products of variance at most 2: 6σ
    assert (Phi @ Phi.T / k - G).abs().max() < 6 * (2 / k) ** 0.5
    cross = Phi @ view.block.weight[0] / k - X[:, 0] / 24
    assert cross.abs().max() < 6 * (1 / k) ** 0.5
    assert torch.allclose(view.base[0, 0, 0], Phi[0], atol=1e-12)


def test_repeated_samples_have_equal_joint_features():
    X = batch(5, 4, 6)
    X[3] = X[2]
    Phi, _ = joint_random_features(X, Stream(0, "twins"), 50, activation("relu"))
    assert (Phi[3] - Phi[2]).abs().max() < 1e-6


@pytest.mark.parametrize("name", ["rf", "raf", "relu_raf", "qkv"])
def test_cell_arrays(name):
    arrays, attributes = run(made(map=name), {}, "cpu")
    searches = 4 * 2 + 2 * 4
    assert {len(values) for values in arrays.values()} == {3}
    assert arrays["loss"].shape == arrays["err_retrained"].shape == (3, searches)
    assert arrays["residual"].max() < 1e-8
    assert (arrays["rank"] == 15).all()
    assert np.allclose(arrays["f_x_retrained"], np.round(arrays["f_x_retrained"]), atol=1e-7)
    limited = np.isfinite(arrays["limit"])
    assert (arrays["gamma"][limited] <= arrays["limit"][limited] + 1e-9).all()
    # every search's value is that of the quantities recorded beside it
    error = np.where(
        arrays["loss"] == "error_finetuned", arrays["err_finetuned"], arrays["err_retrained"]
    )
    wanted = error + arrays["penalty"] * arrays["gamma"] ** 2
    own = np.char.startswith(arrays["loss"].astype(str), "error")
    assert np.allclose(arrays["value"][own], wanted[own], rtol=1e-8, atol=1e-9)
    assert attributes["map"] == name
    below = (arrays["err_finetuned"] < (2 - arrays["gamma"]) ** 2) & (arrays["gamma"] < 2)
    assert (arrays["below_finetuned"] == below).all()


@pytest.mark.parametrize("name", ["rf", "raf"])
def test_draws_depend_on_the_trial_alone(name):
    cell = made(map=name)
    many, _ = run(cell, {}, "cpu")
    few, _ = run({**cell, "trials": 1, "losses": ["features"], "tradeoff": []}, {}, "cpu")
    for key in ("f_x", "norm", "condition"):
        assert few[key][0] == pytest.approx(many[key][0], rel=1e-10)
    first = many["value"][0, (many["loss"][0] == "features") & (many["penalty"][0] == 0)]
    assert few["value"][0, 0] == pytest.approx(first[0], rel=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_random_features_respect_the_line(seed):
    """(17), (21): error > (2 − γ)² − O(1/√n); the slack in √error is |1 − cosine| |y − f(X)|."""
    n = 24
    cell = made(map="rf", n=n, d=16, N=40, seed=seed)
    arrays, _ = run(cell, {}, "cpu")
    for mode in ("finetuned", "retrained"):
        slack = (2 - arrays["gamma"]) - np.sqrt(arrays[f"err_{mode}"])
        assert slack.max() < 1 / n**0.5
    # attention passes the line by more
    arrays, _ = run(made(map="raf", n=n, d=64, N=40, seed=seed), {}, "cpu")
    slack = (2 - arrays["gamma"]) - np.sqrt(arrays["err_finetuned"])
    assert slack.max() > 1.5 / n**0.5


def test_largest_change_shrinks_with_n():
    def change(n):
        cell = made(map="rf", n=n, losses=["change"], penalties=[0], tradeoff=[])
        return run(cell, {}, "cpu")[0]["change"].mean()

    assert change(64) < 0.7 * change(8)


def test_unknown_map_and_loss_are_one_line(monkeypatch):
    monkeypatch.setattr(map_class("drf"), "studies", frozenset({"sensitivity"}))
    with pytest.raises(UserError, match="drf has no generalization"):
        run(made(map="drf"), {}, "cpu")
    with pytest.raises(UserError, match="'hinge' is not known"):
        run(made(losses=["hinge"]), {}, "cpu")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells")
    paths = []
    for N in (10, 15):
        losses = ["features", "alignment", "error_finetuned", "error_retrained", "change"]
        arrays, attributes = run(made(N=N, losses=losses), {}, "cpu")
        paths.append(folder / f"{N}.h5")
        write_cell(paths[-1], arrays, attributes)
    return searches_table(paths)


def test_table_has_a_row_per_trial_search_and_training(table):
    assert len(table) == 2 * 3 * (5 * 2 * 2 + 2 * 4)
    limited = table[table["limit"].notna()]
    assert (limited["loss"] == "error_" + limited["mode"]).all()
    assert set(table["N"]) == {10, 15}
    assert (table["below_line"] == (table["error"] < (2 - table["gamma"]) ** 2)).mean() > 0.9


@pytest.mark.parametrize(
    ("kind", "options", "rows"),
    [
        ("generalization", {"penalties": [0.0]}, 2 * 3 * 4),
        ("generalization", {"N": [15], "losses": ["error_finetuned", "error_retrained"]}, 3 * 4),
        (
            "generalization",
            {"N": [15], "penalties": [0.0], "losses": ["features", "alignment"], "swapped": True},
            3 * 4,
        ),
        ("tradeoff", {}, 2 * 2 * 4),
        ("change", {"penalties": [0.0]}, 2 * 3 * 2),
    ],
)
def test_figures(table, kind, options, rows, tmp_path):
    *_, csv = draw(kind, {"raf": table}, options, tmp_path / "figure")
    assert len(pd.read_csv(csv)) == rows


def test_trade_off_curves_never_rise(table, tmp_path):
    *_, csv = draw("tradeoff", {"raf": table}, {}, tmp_path / "figure")
    for _, curve in pd.read_csv(csv).groupby(["N", "mode"]):
        assert (curve.sort_values("limit")["mean"].diff().dropna() <= 0).all()


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("generalization", {"N": [99]}, r"no rows with N in \[99\]"),
        ("generalization", {"losses": ["change"]}, "none of the losses"),
        ("tradeoff", {"n": [3]}, "no rows with n"),
    ],
)
def test_figures_say_what_is_missing(table, kind, options, words, tmp_path):
    with pytest.raises(UserError, match=words):
        draw(kind, {"raf": table}, options, tmp_path / "figure")
    with pytest.raises(UserError, match="column 'gamma' is missing"):
        draw(kind, {"raf": table.drop(columns="gamma")}, {}, tmp_path / "figure")
