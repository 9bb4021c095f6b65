"""How good is the mean field? Variational moments against draws from the posterior itself.

Three small sets, a kernel learned once per set and then fixed, inducing points
at all rows: what is left between a variational fit and the chains is the
variational family alone. Writes ``results/mean_field.json`` and
``mean_field.png`` beside this file. Takes a few minutes on one core.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from sklearn.datasets import load_iris, load_wine

from bayesvm import BayesianSVC
from bayesvm._core import gaussian
from bayesvm._core.chains import Chains
from bayesvm._core.gaussian import Natural
from bayesvm._core.likelihoods import AugmentedBinaryHinge, BinaryHinge, Likelihood, MulticlassHinge
from bayesvm._core.predictive import expected_softmax
from bayesvm._inference import coordinate, gibbs
from bayesvm._inference import slice as elliptical
from bayesvm._inference.blocks import TrainingRows
from bayesvm._inference.rivals import AllRivals, OneRival, RivalRule
from bayesvm._inference.task import Member, Method, Settings, Task
from bayesvm._progress import silent

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MOST_ROWS = 180
# The natural temperature: the pseudo-likelihood is exp(-2 hinge).
TEMPERATURE = 2.0
# Okabe and Ito's colours, told apart with any kind of colour vision.
COLOURS = {"exact": "#0072B2", "sampled": "#E69F00", "mean": "#009E73", "augmented": "#D55E00"}
Moments = tuple[np.ndarray, np.ndarray, np.ndarray]
Sets = dict[str, tuple[np.ndarray, np.ndarray]]


def penguins() -> tuple[np.ndarray, np.ndarray]:
    """Island from four measurements of a penguin: classes that overlap."""
    table = pd.read_csv(ROOT / "src" / "bayesvm" / "tables" / "data" / "penguins.csv")
    columns = ["Culmen Length (mm)", "Culmen Depth (mm)", "Flipper Length (mm)", "Body Mass (g)"]
    table = table[table[columns].notna().all(axis=1)]
    return table[columns].to_numpy(float), np.unique(table["Island"].astype(str), return_inverse=True)[1]


def data_sets() -> Sets:
    """At most 180 distinct rows of each."""
    sets: Sets = {
        "iris": load_iris(return_X_y=True),
        "wine": load_wine(return_X_y=True),
        "penguins (island)": penguins(),
    }
    rng = np.random.default_rng(0)
    out = {}
    for name, (X, y) in sets.items():
        _, first = np.unique(X, axis=0, return_index=True)
        kept = np.sort(rng.permutation(first)[:MOST_ROWS])
        out[name] = (X[kept], y[kept])
    return out


def dense_rows(X: np.ndarray, y: np.ndarray) -> TrainingRows:
    """Rows that are their own inducing points, under a kernel learned once."""
    n_classes = int(y.max()) + 1
    fitted = BayesianSVC(n_inducing=len(y), kernel="rbf", committee=False, random_state=0).fit(X, y)
    scaled = torch.as_tensor(fitted.model_.scaler.transform(X))
    loaded = fitted.model_.on("cpu", torch.float64)
    ones, key = torch.ones(len(y), dtype=torch.float64), torch.arange(len(y))
    return TrainingRows(
        scaled, torch.as_tensor(y), ones, ones, key, loaded.kernel, loaded.params, scaled.clone(), n_classes
    )


def centred_moments(F: torch.Tensor, s2: torch.Tensor) -> Moments:
    """Mean and deviation of class-centred latents, and class probabilities, of independent Gaussians."""
    C = F.shape[1]
    if C == 1:
        two = torch.cat([-0.5 * F, 0.5 * F], 1), (0.5 * s2).expand(-1, 2)
        return F.numpy(), s2.sqrt().numpy(), expected_softmax(*two, TEMPERATURE).numpy()
    variance = s2 * (1.0 - 2.0 / C) + s2.sum(1, keepdim=True) / C**2
    proba = expected_softmax(F, s2, TEMPERATURE)
    return (F - F.mean(1, keepdim=True)).numpy(), variance.sqrt().numpy(), proba.numpy()


def variational(rows: TrainingRows, rule: RivalRule, n_latents: int) -> Moments:
    """Moments of the fit by coordinate ascent."""
    base = Natural.prior(n_latents, rows.Lz)
    with torch.no_grad():
        ascent = coordinate.ascend(rows, rule, base, base, 400, 1e-3, silent)
        A, residual = rows.features(rows.X)
        s2 = gaussian.variance(ascent.q, A) + residual[:, None]
        return centred_moments(gaussian.mean(ascent.q, A), s2)


def sampled(
    rows: TrainingRows, likelihood: Likelihood, method: Method, n_latents: int
) -> tuple[Moments, Chains]:
    """The same of the posterior, by chains."""
    base = Natural.prior(n_latents, rows.Lz)
    settings = Settings(max_iter=2 * method.max_iter, n_draws=500, n_chains=4, fitc=True)
    task = Task(rows, Member(likelihood, AllRivals(likelihood)), base, base, settings)
    chains = method.run(task, silent).ascent.chains
    assert chains is not None
    f = chains.f.flatten(0, 1).double()
    if n_latents == 1:
        two = torch.cat([-0.5 * f, 0.5 * f], 2)
    else:
        two = f = f - f.mean(2, keepdim=True)
    proba = torch.softmax(TEMPERATURE * two, 2).mean(0)
    return (f.mean(0).numpy(), f.std(0).numpy(), proba.numpy()), chains


def compare(truth: Moments, fit: Moments) -> dict[str, float]:
    """What the figure shows, in numbers."""
    (mean, sd, proba), (mean_q, sd_q, proba_q) = truth, fit
    ratio = sd_q / sd
    slope = float((mean * mean_q).sum() / (mean * mean).sum())
    return {
        "mean_slope": slope,
        "mean_rms_error_in_sd": float(np.sqrt(np.mean(((mean_q - mean) / sd) ** 2))),
        "sd_ratio_median": float(np.median(ratio)),
        "sd_ratio_5%": float(np.quantile(ratio, 0.05)),
        "sd_ratio_95%": float(np.quantile(ratio, 0.95)),
        "proba_mean_error": float(np.abs(proba_q - proba).mean()),
        "proba_largest_error": float(np.abs(proba_q - proba).max()),
        "same_class": float((proba_q.argmax(1) == proba.argmax(1)).mean()),
    }


Column = tuple[str, Moments, dict[str, Moments]]


def run() -> tuple[list[Column], dict[str, Any]]:
    """Every set with three classes by elliptical slices, and class 1 against the rest by Gibbs."""
    columns: list[Column] = []
    numbers: dict[str, Any] = {"temperature": TEMPERATURE, "sets": {}}
    binary_truth: list[Moments] = []
    binary_fits: dict[str, list[Moments]] = {"exact": [], "augmented": []}
    for name, (X, y) in data_sets().items():
        rows = dense_rows(X, y)
        start = time.perf_counter()
        truth, chains = sampled(rows, MulticlassHinge(), elliptical.METHOD, rows.n_classes)
        seconds = time.perf_counter() - start
        rules = {
            "exact": AllRivals(MulticlassHinge()),
            "sampled": OneRival(True, 0),
            "mean": OneRival(False),
        }
        fits = {rule: variational(rows, value, rows.n_classes) for rule, value in rules.items()}
        columns.append((f"{name}: {len(y)} rows", truth, fits))
        entry: dict[str, Any] = {"rows": len(y), "chains": str(chains), "seconds": round(seconds, 1)}
        entry |= {rule: compare(truth, fit) for rule, fit in fits.items()}
        two = replace(rows, y=(rows.y == 1).long(), n_classes=2)
        truth, chains = sampled(two, BinaryHinge(), gibbs.METHOD, 1)
        binary_truth.append(truth)
        entry["binary"] = {"chains": str(chains)}
        for kind, likelihood in (("exact", BinaryHinge()), ("augmented", AugmentedBinaryHinge())):
            fit = variational(two, AllRivals(likelihood), 1)
            binary_fits[kind].append(fit)
            entry["binary"][kind] = compare(truth, fit)
        numbers["sets"][name] = entry
        print(json.dumps({name: entry}, indent=1), flush=True)
    columns.append(
        (
            "two classes, all three sets",
            _joined(binary_truth),
            {k: _joined(v) for k, v in binary_fits.items()},
        )
    )
    return columns, numbers


def _joined(parts: list[Moments]) -> Moments:
    mean, sd, proba = (np.concatenate([part[i] for part in parts]) for i in range(3))
    return mean, sd, proba


def panel(ax: Axes, truth: np.ndarray, fits: dict[str, np.ndarray], notes: dict[str, str]) -> None:
    """Variational against sampled, one colour per treatment of the rivals."""
    everything = np.concatenate([truth.ravel(), *(fit.ravel() for fit in fits.values())])
    low, high = everything.min(), everything.max()
    pad = 0.04 * (high - low)
    ax.plot([low - pad, high + pad], [low - pad, high + pad], color="#999999", lw=0.8, zorder=0)
    for kind, fit in fits.items():
        label = f"{kind}{notes.get(kind, '')}"
        ax.plot(truth.ravel(), fit.ravel(), ".", ms=2.6, color=COLOURS[kind], alpha=0.55, mew=0, label=label)
    ax.set(xlim=(low - pad, high + pad), ylim=(low - pad, high + pad))
    ax.set_aspect("equal")
    legend = ax.legend(
        fontsize=7.5, loc="upper left", frameon=False, handletextpad=0.1, borderpad=0.0, markerscale=3
    )
    for handle in legend.legend_handles:
        handle.set_alpha(1.0)


def draw(columns: list[Column]) -> Path:
    """Means, standard deviations and class probabilities; a column per set."""
    style = {"font.size": 8.5, "axes.spines.top": False, "axes.spines.right": False}
    with plt.rc_context(style):
        fig, axes = plt.subplots(3, len(columns), figsize=(2.6 * len(columns), 7.6), layout="constrained")
        for column, (title, truth, fits) in enumerate(columns):
            for row in range(3):
                notes = {}
                if row == 1:
                    notes = {k: f", median {np.median(fit[1] / truth[1]):.2f}" for k, fit in fits.items()}
                if row == 2:
                    notes = {k: f", error {np.abs(fit[2] - truth[2]).mean():.3f}" for k, fit in fits.items()}
                panel(axes[row, column], truth[row], {k: fit[row] for k, fit in fits.items()}, notes)
            axes[0, column].set_title(title, fontsize=9, loc="left")
        for row, what in enumerate(("latent mean", "latent standard deviation", "class probability")):
            axes[row, 0].set_ylabel(f"{what}, variational")
            for ax in axes[row]:
                ax.set_xlabel(f"{what}, sampled", fontsize=7.5)
        target = HERE / "mean_field.png"
        fig.savefig(target, dpi=150)
        plt.close(fig)
    return target


def main() -> None:
    """Run, write the numbers, draw."""
    columns, numbers = run()
    (ROOT / "results").mkdir(exist_ok=True)
    (ROOT / "results" / "mean_field.json").write_text(json.dumps(numbers, indent=1) + "\n")
    print(draw(columns))


if __name__ == "__main__":
    main()
