"""The tables of docs/scale.md, from what scale.py measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["write_page"]

Record = dict[str, Any]
WORDS = {
    "poker.sweep_over_products": "poker: one sweep over the products and solves it cannot avoid",
    "poker.fit_seconds": "poker: a fit to convergence, s",
    "poker.peak_gb": "poker: peak memory above the data, GB",
    "gpu.speedup": "poker: two cores over one accelerator, the same sweep",
    "classes_1000.speedup": "1000 classes: a step of a softmax SVGP over a sweep",
    "dask.time_ratio": "Dask, two worker processes over one process with two threads",
    "dask.max_difference": "… largest difference of the two fits",
    "predict.one_row_ms": "`predict_proba`, one row, ms",
    "predict.one_row_compiled_ms": "… compiled, ms",
    "predict.rows_per_second": "… compiled, in batches, rows a second",
}
UNITS = {
    "row": "1",
    "row P": "P",
    "row D P": "D P",
    "row P^2": "P²",
    "row P C": "P C",
    "class P^2": "C P²",
    "class P^3": "C P³",
}


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def figures(content: Record, bars: dict[str, tuple[str, float]]) -> str:
    """Every figure with its bar."""
    rows = []
    for name, (sign, bar) in bars.items():
        value = f"{content[name]:.4g}" if name in content else "not measured"
        rows.append([WORDS[name], value, f"{sign} {bar:g}"])
    return _table(["figure", "measured", "bar"], rows)


def constants(models: dict[str, Record]) -> str:
    """Constants of the cost model on every kind of machine."""
    names = list(models)
    rows = []
    for term, unit in UNITS.items():
        what = "each class" if term.startswith("class") else "each row"
        values = [f"{1e9 * m['constants'][term]:.3g}" for m in models.values()]
        rows.append([f"{unit} ({what})", *values])
    for label, key in (("largest error of the fit", "largest_error_of_fit"),):
        rows.append([label, *(f"{100 * m[key]:.0f} %" for m in models.values())])
    checks = [m["check"][0] for m in models.values()]
    sizes = [f"N = {c['N']}, D = {c['D']}, P = {c['P']}, C = {c['C']}" for c in checks]
    rows.append(["the run it was not fitted to", *sizes])
    rows.append(["… measured, s", *(f"{c['measured_s']:.3g}" for c in checks)])
    rows.append(["… predicted, s", *(f"{c['predicted_s']:.3g}" for c in checks)])
    rows.append(["… error", *(f"{100 * c['error']:+.0f} %" for c in checks)])
    return _table(["term, ns", *names], rows)


def ahead(models: dict[str, Record]) -> str:
    """What the constants say about sizes that no one has run."""
    first = next(iter(models.values()))["ahead"]
    rows = []
    for i, size in enumerate(first):
        shape = [f"{size[k]:.0e}".replace("e+0", "e") if size[k] > 9999 else str(size[k]) for k in "NDPC"]
        seconds = [_seconds(m["ahead"][i]["sweep_s"]) for m in models.values()]
        network = f"{size['network_bytes'] / 1e9:.3g}"
        rows.append([*shape, str(size["workers"]), f"{size['posterior_gb']:.3g}", network, *seconds])
    head = ["N", "D", "P", "C", "machines", "q, GB", "sent, GB", *(f"a sweep, {name}" for name in models)]
    return _table(head, rows)


def on_gpu(gpu: Record) -> str:
    """Sweeps and the fit of poker on the accelerator, and whole fits against the same on the processor."""
    best = {
        kind: {
            precision: min(
                v["median_ms"] for k, v in gpu["sweep"].items() if k.startswith(f"{kind}, {precision}")
            )
            for precision in ("float64", "float32 moments")
        }
        for kind in ("kept", "anew")
    }
    times = [
        ["a sweep, features kept, ms", f"{best['kept']['float64']:.3g}"],
        ["… moments in single precision", f"{best['kept']['float32 moments']:.3g}"],
        ["… features made anew", f"{best['anew']['float64']:.3g}"],
        ["… rows sent as well", f"{gpu['from_host']['median_ms']:.3g}"],
        ["the fit to convergence, s", f"{gpu['fit']['fit_s']:.3g}"],
    ]
    same = [
        [f"`{name}`", f"{found['max_difference']:.0e}".replace("e-0", "e-")]
        for name, found in gpu["estimators"].items()
    ]
    name = gpu["machine"]["name"]
    return "\n\n".join(
        [
            _table([f"poker, 64 inducing points, {name}", "measured"], times),
            _table(["900 rows, 4 classes", "largest difference of class probabilities"], same),
        ]
    )


def thousands(found: Record) -> str:
    """A default fit to thousands of classes, and predictions."""
    predict = found["predict"]
    rows = [
        ["classes, rows, inducing points", f"{found['classes']}, {found['rows']}, {found['inducing']}"],
        ["fit, s", f"{found['fit_s']:.0f}"],
        ["… peak memory, GB", f"{found['peak_gb']:.1f}"],
        ["… sweeps", f"{found['sweeps']}{'' if found['converged'] else ', not converged'}"],
        ["accuracy on new rows", f"{predict['accuracy']:.3f}"],
        ["… leave-one-out says", f"{found['loo_score']:.3f}"],
        ["… mean probability of the favourite", f"{predict['mean_confidence']:.3f}"],
        [f"`predict_proba`, {predict['rows']} rows, s", f"{predict['proba_s']:.2f}"],
    ]
    for name, top in found.items():
        if name.startswith("top_5"):
            rows.append([f"`predict_top_k`, {name.split(', ')[1]}, s", f"{top['s']:.2f}"])
    return _table(["ten thousand classes", "measured"], rows)


def _seconds(s: float) -> str:
    return f"{s:.2g} s" if s < 120 else f"{s / 60:.2g} min" if s < 7200 else f"{s / 3600:.2g} h"


def write_page(path: Path, content: Record, bars: dict[str, tuple[str, float]]) -> None:
    """Put the tables between their marks on the page."""
    tables = {"figures": figures(content, bars)}
    models = {}
    if "model" in content:
        models["two cores"] = content["model"]
    gpu = content.get("details", {}).get("gpu", {})
    if "model" in gpu:
        models[gpu.get("machine", {}).get("name", "accelerator")] = gpu["model"]
    if "thousands" in content.get("details", {}):
        tables["thousands"] = thousands(content["details"]["thousands"])
    if {"estimators", "from_host", "fit", "sweep", "machine"} <= set(gpu):
        tables["gpu"] = on_gpu(gpu)
    if models:
        tables |= {"constants": constants(models), "ahead": ahead(models)}
    text = path.read_text(encoding="utf-8")
    for name, table in tables.items():
        begin, end = f"<!-- {name}: studies/benchmarks/scale.py --page -->", f"<!-- end of {name} -->"
        before, rest = text.split(begin)
        text = f"{before}{begin}\n\n{table}\n\n{end}{rest.split(end)[1]}"
    path.write_text(text, encoding="utf-8")
