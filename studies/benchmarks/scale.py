"""Past one machine: sweeps, fits, memory, classes, a cluster and predictions against their bars.

    python studies/benchmarks/scale.py --json results/benchmarks/scale.json [--only NAME] [--data FOLDER]
    python studies/benchmarks/scale.py --json FILE --gpu scale_gpu.json     (from scale_gpu.py)
    python studies/benchmarks/scale.py --json FILE --model
    python studies/benchmarks/scale.py --json FILE --page docs/scale.md

Figures that are in the file already and were measured with the same code are
kept, unless --again. Times are those of two threads; studies/benchmarks/README.md
says how to read them and docs/scale.md what follows from them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

THREADS = 2
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = str(THREADS)

import scale_classes  # noqa: E402
import scale_dask  # noqa: E402
import scale_model  # noqa: E402
import scale_page  # noqa: E402
import scale_poker  # noqa: E402
import scale_predict  # noqa: E402
import scale_thousands  # noqa: E402
import torch  # noqa: E402
from _common import environment, source_version, write_json  # noqa: E402

Record = dict[str, Any]

# Figure: its bar, and whether it must stay below or reach it.
BARS: dict[str, tuple[str, float]] = {
    "poker.sweep_over_products": ("<=", 1.6),
    "poker.fit_seconds": ("<=", 180.0),
    "poker.peak_gb": ("<=", 2.0),
    "gpu.speedup": (">=", 50.0),
    "classes_1000.speedup": (">=", 100.0),
    "dask.time_ratio": ("<=", 1.3),
    "dask.max_difference": ("<=", 1e-6),
    "predict.one_row_ms": ("<=", 1.0),
    "predict.one_row_compiled_ms": ("<=", 0.2),
    "predict.rows_per_second": (">=", 100_000.0),
}
# What is measured together, and the figures that come of it.
PARTS: dict[str, tuple[str, ...]] = {
    "sweep": ("poker.sweep_over_products",),
    "fit": ("poker.fit_seconds", "poker.peak_gb"),
    "classes": ("classes_1000.speedup",),
    "dask": ("dask.time_ratio", "dask.max_difference"),
    "predict": ("predict.one_row_ms", "predict.one_row_compiled_ms", "predict.rows_per_second"),
    "thousands": (),
}


def measures(
    data: str | None, repeats: int, rows: int | None
) -> dict[str, Callable[[], tuple[Record, Record]]]:
    """How each part is measured: figures, and what they were made of."""
    return {
        "sweep": lambda: scale_poker.sweep(data, repeats, rows),
        "fit": lambda: scale_poker.fit(__file__, data, repeats),
        "classes": lambda: scale_classes.measure(min(repeats, 5)),
        "dask": lambda: scale_dask.measure(__file__, data, repeats),
        "predict": lambda: scale_predict.measure(repeats),
        "thousands": scale_thousands.measure,
    }


def read(path: str | None) -> Record:
    """What is in the file already."""
    if path is None or not Path(path).is_file():
        return {}
    found: Record = json.loads(Path(path).read_text())
    return found


def is_known(content: Record, part: str, version: str) -> bool:
    """Whether the figures of a part are there, from the same code."""
    same = content.get("details", {}).get(part, {}).get("bayesvm") == version
    return same and all(name in content for name in PARTS[part])


def with_gpu(content: Record, gpu: Record) -> Record:
    """The run on an accelerator taken over, and how much faster its sweep is than that of two cores.

    Both make the same sweep: features anew from standardised rows that are
    in memory, and the like with features kept. The figure is the smaller one.
    """
    details = dict(content.get("details", {}))
    details["gpu"] = gpu
    here = details.get("sweep")
    if here is None:
        raise SystemExit("the sweep of two cores is not in the file yet: run --only sweep first")
    ratios = {}
    for kind in ("kept", "anew"):
        times = [v["median_ms"] for k, v in gpu["sweep"].items() if k.startswith(f"{kind}, float64")]
        ratios[kind] = round(1e3 * here[kind]["sweep_s"] / min(times), 1)
    details["gpu"]["speedup"] = ratios
    if "runs" in gpu.get("grid", {}):
        details["gpu"]["model"] = scale_model.summary(gpu["grid"]["runs"])
    return {**content, "gpu.speedup": min(ratios.values()), "details": details}


def ordered(content: Record) -> Record:
    """Figures first, in the order of the bars."""
    figures = {name: content[name] for name in BARS if name in content}
    return {**figures, **{k: content[k] for k in ("model", "details", "config") if k in content}}


def report(content: Record, threads: int = THREADS) -> bool:
    """Print the figures with their bars; whether all that are there hold."""
    print(f"\n{'figure':<30}{'measured':>12}{'bar':>14}   verdict ({threads} threads)")
    fine = True
    for name, (sign, bar) in BARS.items():
        if name not in content:
            print(f"{name:<30}{'-':>12}{sign + ' ' + format(bar, 'g'):>14}   not measured")
            continue
        value = content[name]
        holds = value <= bar if sign == "<=" else value >= bar
        fine &= holds
        verdict = "ok" if holds else "NOT REACHED"
        print(f"{name:<30}{value:>12.4g}{sign + ' ' + format(bar, 'g'):>14}   {verdict}")
    return fine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    names = [*PARTS, *(figure for figures in PARTS.values() for figure in figures)]
    parser.add_argument("--only", metavar="NAME", choices=names, action="append", help=f"of {names}")
    parser.add_argument("--json", metavar="FILE", help="figures are read from there and written to it")
    parser.add_argument("--data", help="folder of PMLB sets (default: as bayesvm_studies.datasets)")
    parser.add_argument("--repeats", type=int, default=7, help="timed repetitions (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=THREADS, help="to try the script, without --json")
    parser.add_argument("--rows", type=int, help="rows of poker: to try the script, without --json")
    parser.add_argument("--again", action="store_true", help="measure what is known too")
    parser.add_argument(
        "--gpu",
        metavar="FILE",
        action="append",
        help="take over what scale_gpu.py wrote; of several runs, each step from the first that has it",
    )
    parser.add_argument("--page", metavar="FILE", help="write the tables of docs/scale.md into it")
    parser.add_argument("--model", action="store_true", help="measure and fit the cost model")
    parser.add_argument("--fit-poker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--fit-for-dask", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.json and (given.rows is not None or given.threads != THREADS):
        parser.error("--rows and --threads are for trying the script: without --json")
    if given.fit_poker:
        scale_poker.fit_in_this_process(given.data, THREADS)
        return 0
    if given.fit_for_dask:
        scale_dask.fit_in_this_process(given.fit_for_dask[0], given.data, given.fit_for_dask[1], THREADS)
        return 0
    torch.set_num_threads(given.threads)
    torch.set_grad_enabled(False)
    content, version = read(given.json), source_version()

    def keep() -> None:
        content["config"] = {
            "threads": given.threads,
            "repeats": given.repeats,
            "bars": BARS,
            **environment(),
        }
        if given.json:
            write_json(given.json, ordered(content))

    if given.gpu:
        runs = [read(name) for name in given.gpu]
        content = with_gpu(content, {step: run[step] for run in reversed(runs) for step in run})
        keep()
    elif given.page:
        scale_page.write_page(Path(given.page), content, BARS)
    elif given.model:
        content["model"] = scale_model.run(given.repeats)
        keep()
    else:
        wanted = given.only or list(PARTS)
        for part, measure in measures(given.data, given.repeats, given.rows).items():
            if part not in wanted and not set(PARTS[part]) & set(wanted):
                continue
            if not given.again and is_known(content, part, version):
                print(f"{part}: known", file=sys.stderr)
                continue
            start = time.perf_counter()
            try:
                with torch.enable_grad() if part == "predict" else torch.no_grad():
                    figures, details = measure()
            except Exception as error:  # the other figures can still be had
                print(f"{part}: {type(error).__name__}: {error}", file=sys.stderr)
                continue
            content.update(figures)
            details |= {"bayesvm": version, "took_s": round(time.perf_counter() - start, 1)}
            content["details"] = {**content.get("details", {}), part: details}
            keep()
    return 0 if report(content, given.threads) else 1


if __name__ == "__main__":
    sys.exit(main())
