"""The race of bayesvm_studies.benchmarks.race: log-loss against time on digits, and the ratios on all sets.

Reads ``results/benchmarks/peers.jsonl`` and ``peers.json`` and writes
``peers.png`` beside this file, or into the folder given.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, NullFormatter

from bayesvm_studies.results import read_lines

RESULTS = Path(__file__).resolve().parents[2] / "results" / "benchmarks"
# Okabe and Ito's colours, told apart with any kind of colour vision.
OURS, GPFLOW, GPYTORCH, REST = "#D55E00", "#0072B2", "#009E73", "#555555"
# model: label, colour, line style, where its label stands from the end of its line (points)
LINES: dict[str, tuple[str, str, str, tuple[float, float], str]] = {
    "gpytorch": ("GPyTorch SVGP", GPYTORCH, "-", (4, 3), "left"),
    "gpytorch_minibatch": ("minibatches", GPYTORCH, ":", (5, 5), "left"),
    "gpflow": ("GPflow SVGP", GPFLOW, "-", (4, -3), "left"),
    "gpflow_minibatch": ("minibatches", GPFLOW, ":", (5, 6), "left"),
    "bayesvm": ("BayesianSVC", OURS, "-", (-4, -12), "right"),
}
POINTS: dict[str, tuple[str, tuple[float, float], str]] = {
    "logistic_regression": ("logistic\nregression", (7, 0), "left"),
    "svc": ("SVC, Platt scaling", (0, 9), "center"),
    "random_forest": ("random forest", (7, 0), "left"),
    "hist_gradient_boosting": ("HistGradient-\nBoosting", (7, 0), "left"),
    "gpc": ("GaussianProcess-\nClassifier", (-7, 0), "right"),
}
HALO = [withStroke(linewidth=2.5, foreground="white")]  # labels stay legible where they meet a line
Records = dict[tuple[str, str], dict[str, Any]]


def read_records() -> Records:
    """The last run of every model on every set."""
    lines = read_lines(RESULTS / "peers.jsonl").splitlines()
    return {(r["data"], r["model"]): r for r in map(json.loads, lines) if "seconds" in r}


def write(ax: Axes, text: str, point: tuple[float, float], offset: tuple[float, float], **style: Any) -> None:
    """A label some points away from what it belongs to."""
    ax.annotate(text, point, xytext=offset, textcoords="offset points", path_effects=HALO, **style)


def draw_lead(ax: Axes, race: dict[str, Any]) -> None:
    """An arrow at GPflow's target from our time to its."""
    if race["ours_s"] is None:
        return
    ends = [(race["ours_s"], race["target"]), (race["peer_s"], race["target"])]
    ax.annotate(
        "", *ends, arrowprops={"arrowstyle": "<->", "color": "black", "lw": 0.9, "shrinkA": 0, "shrinkB": 0}
    )
    middle = (race["ours_s"] * race["peer_s"]) ** 0.5
    text = f"{1 / race['ratio']:.0f}×"
    write(ax, text, (middle, race["target"]), (0, -3), ha="center", va="top", weight="bold")


def draw_digits(ax: Axes, records: Records, races: list[dict[str, Any]]) -> None:
    """Test log-loss against seconds of training: curves of what trains step by step, points of the rest."""
    for model, (label, colour, style, offset, side) in LINES.items():
        if ("digits", model) not in records:
            continue
        run = records["digits", model]
        # Building an estimator takes now more, now less: sorted, no line goes back in time.
        seconds, losses = np.array(sorted(zip(run["seconds"], run["log_loss"], strict=True))).T
        losses = np.minimum.accumulate(losses)
        width, weight = (2.6, "bold") if model == "bayesvm" else (1.6, "normal")
        ax.plot(seconds, losses, style, color=colour, lw=width, solid_capstyle="round")
        end = (seconds[-1], losses[-1])
        ax.plot(*end, "o", color=colour, ms=5)
        write(ax, label, end, offset, color=colour, ha=side, va="center", weight=weight)
    for model, (label, offset, side) in POINTS.items():
        if ("digits", model) not in records:
            continue
        run = records["digits", model]
        point = (run["seconds"][0], run["log_loss"][0])
        ax.plot(*point, "D", color=REST, ms=5)
        write(ax, label, point, offset, color=REST, fontsize=8, ha=side, va="center", linespacing=1.0)
    draw_lead(ax, next(r for r in races if (r["data"], r["peer"]) == ("digits", "gpflow")))
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="seconds of training, one thread",
        ylabel="best test log-loss so far",
    )
    ax.set_title("digits: 64 inducing points", loc="left", fontsize=10)
    ticks = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0]
    ax.set_yticks(ticks, [f"{t:g}" for t in ticks])
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_xlim(right=400)
    ax.grid(which="major", color="#e6e6e6", lw=0.6)


def draw_ratios(ax: Axes, summary: dict[str, Any]) -> None:
    """How many times sooner BayesianSVC was where a peer got best; one line per set."""
    races = {(r["data"], r["peer"]): r for r in summary["races"] if r["peer"] in ("gpflow", "gpytorch")}
    sets = sorted({data for data, _ in races}, key=lambda data: -races[data, "gpflow"]["ratio"])
    ax.axvline(1.0, color="#999999", lw=0.8)
    for peer, colour, marker, shift in (("gpflow", GPFLOW, "o", 0.12), ("gpytorch", GPYTORCH, "s", -0.12)):
        for i, data in enumerate(sets):
            if (data, peer) in races:
                race = races[data, peer]
                shape = ">" if race["at_least"] else marker
                inside = "white" if race["ours_s"] is None else colour
                ax.plot(1.0 / race["ratio"], i + shift, shape, color=colour, mfc=inside, ms=6)
        mean = summary["suite"].get(f"time_ratio_{peer}")
        if mean is not None:
            ax.axvline(1.0 / mean, color=colour, lw=1.2, ls="--", zorder=0)
    ax.set_yticks(range(len(sets)), [d.replace("analcatdata_", "") for d in sets], fontsize=8)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}×"))
    ax.set_xlabel("times sooner at the peer's best log-loss")
    ax.set_title("all sets; dashed: geometric means", loc="left", fontsize=10)
    keys = [
        ax.plot([], [], "o", color=GPFLOW, label="GPflow")[0],
        ax.plot([], [], "s", color=GPYTORCH, label="GPyTorch")[0],
        ax.plot([], [], ">", color="black", label="at least")[0],
        ax.plot([], [], "o", color="black", mfc="white", label="never there")[0],
    ]
    ax.legend(
        handles=keys, loc="upper left", fontsize=7.5, framealpha=1.0, edgecolor="white", handletextpad=0.2
    )
    ax.grid(axis="x", which="major", color="#e6e6e6", lw=0.6)


def main(folder: Path) -> Path:
    """Draw and write; returns the file."""
    records = read_records()
    summary = json.loads((RESULTS / "peers.json").read_text())
    with plt.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        fig, (left, right) = plt.subplots(
            1, 2, figsize=(9.2, 4.3), layout="constrained", gridspec_kw={"width_ratios": [1.75, 1]}
        )
        draw_digits(left, records, summary["races"])
        draw_ratios(right, summary)
        target = folder / "peers.png"
        fig.savefig(target, dpi=150)
        plt.close(fig)
    return target


if __name__ == "__main__":
    print(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent))
