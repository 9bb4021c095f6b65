"""Decision regions of four classes, fading where the model does not know.

Writes ``decision_regions.png`` beside this file, or into the folder given.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from bayesvm import BayesianSVC
from bayesvm.plotting import DecisionRegionDisplay


def spiral(n_per_class: int = 70, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Three arms of a spiral around a core."""
    rng = np.random.default_rng(seed)
    arms = []
    for arm in range(3):
        t = np.sqrt(rng.uniform(0.08, 1.0, n_per_class))
        angle = 2.6 * t + 2 * np.pi * arm / 3
        radius = 0.9 + 2.6 * t
        xy = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)
        arms.append(xy + rng.normal(scale=0.22, size=xy.shape))
    core = rng.normal(scale=0.42, size=(n_per_class, 2))
    X = np.concatenate([*arms, core]) * [1.45, 1.0]
    y = np.repeat(["arm 1", "arm 2", "arm 3", "core"], n_per_class)
    return X, y


def main(folder: Path) -> Path:
    """Fit, draw, write; returns the file."""
    X, y = spiral()
    model = BayesianSVC(kernel="rbf", random_state=0).fit(X, y)
    fig, ax = plt.subplots(figsize=(7.2, 4.1), layout="constrained")
    DecisionRegionDisplay.from_estimator(model, X, y, margin=0.35, grid_resolution=300, ax=ax)
    ax.set(xticks=[], yticks=[], xlabel="", ylabel="")
    ax.set_aspect("equal")
    ax.spines[:].set_visible(False)
    target = folder / "decision_regions.png"
    fig.savefig(target, dpi=150, bbox_inches="tight", pad_inches=0.05)
    plt.close(fig)
    return target


if __name__ == "__main__":
    print(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent))
