"""The race against other Gaussian processes and the usual classifiers: test log-loss against time.

Every model runs on the same splits with one thread, alone, in a process of
its own; both SVGPs start from the inducing points of BayesianSVC. Results are
kept after every run, so a race that was stopped goes on where it stopped.
studies/README.md says how the clock runs and how to read the ratios.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bayesvm_studies.benchmarks.common import (
    RESULTS,
    Record,
    command_line,
    folder_of_sets,
    write_json,
)
from bayesvm_studies.benchmarks.race_models import (
    CONTESTANTS,
    DIGITS,
    OURS,
    PEERS,
    SETS,
    SPLIT,
    Contestant,
    digest,
    load_problem,
    run,
    version,
    with_option,
)
from bayesvm_studies.results import compressed_path, read_lines

REFERENCE = "gpflow"  # whose target everybody runs for on digits
# How many times sooner we mean to be.
AIMS = {"digits": {"gpflow": 30, "gpytorch": 50}, "suite": {"gpflow": 7, "gpytorch": 17}}


class Curve(NamedTuple):
    """Test log-loss after so many seconds of training, in the order of time."""

    seconds: list[float]
    log_loss: list[float]

    @property
    def best(self) -> float:
        """The lowest log-loss of the run."""
        return min(self.log_loss)

    @property
    def total(self) -> float:
        """Seconds of the whole run."""
        return max(self.seconds)

    def first_at(self, level: float) -> float | None:
        """Fewest seconds after which the log-loss was at or below ``level``; None if it never was."""
        return min((s for s, loss in zip(*self, strict=True) if loss <= level), default=None)


@dataclass(frozen=True)
class Race:
    """One peer on one set against us.

    Attributes
    ----------
    target : float
        Test log-loss to reach.
    peer_s, ours_s : float or None
        Seconds until it was reached. ``ours_s`` is None if we never were there.
    at_least : bool
        The peer never was there and ``peer_s`` is its whole run: its true
        time is longer (printed with a ≥).
    ratio : float
        Our time over the peer's; 1 if we never arrived.
    """

    target: float
    peer_s: float
    ours_s: float | None
    at_least: bool
    ratio: float

    @property
    def arrived(self) -> bool:
        """Whether we reached the target."""
        return self.ours_s is not None


def race(ours: Curve, peer: Curve, target: float | None = None) -> Race:
    """Our time to ``target`` over the peer's; the target is the peer's own best unless given."""
    target = peer.best if target is None else target
    reached = peer.first_at(target)
    peer_s = peer.total if reached is None else reached
    ours_s = ours.first_at(target)
    return Race(target, peer_s, ours_s, reached is None, 1.0 if ours_s is None else ours_s / peer_s)


def geometric_mean(values: Iterable[float]) -> float:
    """The mean of ratios: a ratio and its inverse cancel."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def race_all(curves: Mapping[tuple[str, str], Curve], peers: Iterable[str]) -> dict[tuple[str, str], Race]:
    """Races by set and peer, wherever we and the peer ran.

    On digits every peer runs for the reference's target, if that ran.
    """
    races = {}
    for data in dict.fromkeys(data for data, _ in curves):
        reference = curves.get((data, REFERENCE)) if data == DIGITS else None
        for peer in peers:
            ours, theirs = curves.get((data, OURS)), curves.get((data, peer))
            if ours and theirs:
                races[data, peer] = race(ours, theirs, reference.best if reference else None)
    return races


def summarise(curves: Mapping[tuple[str, str], Curve], peers: Iterable[str]) -> dict[str, Any]:
    """What the JSON file says of the race: digits, the suite (all other sets) and every race."""
    peers = list(peers)
    races = race_all(curves, peers)
    digits: dict[str, Any] = {}
    suite: dict[str, Any] = {}
    for peer in peers:
        if (DIGITS, peer) in races:
            digits[f"time_ratio_{peer}"] = races[DIGITS, peer].ratio
            digits[f"at_least_{peer}"] = races[DIGITS, peer].at_least
            own = race(curves[DIGITS, OURS], curves[DIGITS, peer])
            digits[f"time_ratio_{peer}_own_target"] = own.ratio
        others = {data: r for (data, name), r in races.items() if name == peer and data != DIGITS}
        if others:
            suite[f"time_ratio_{peer}"] = geometric_mean(r.ratio for r in others.values())
            suite[f"n_sets_{peer}"] = len(others)
            suite[f"not_reached_{peer}"] = [data for data, r in others.items() if not r.arrived]
    return {
        "digits": digits,
        "suite": suite,
        "races": [{"data": data, "peer": peer, **asdict(r)} for (data, peer), r in races.items()],
    }


Results = dict[tuple[str, str], Record]
# What makes an old result the result of the same run.
IDENTITY = ("version", "options", "problem", "provisional")


# --- results --------------------------------------------------------------------------------------


def read_results(path: Path) -> Results:
    """Earlier records by data and model."""
    lines = read_lines(path).decode().splitlines()
    return {(r["data"], r["model"]): r for r in map(json.loads, lines)}


def write_results(path: Path, results: Results) -> None:
    """All records, one a line, sorted; written beside and moved, so that the file is always whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    beside.write_text("".join(json.dumps(results[key]) + "\n" for key in sorted(results)))
    os.replace(beside, path)
    compressed_path(path).unlink(missing_ok=True)


def is_known(old: Record | None, identity: Record) -> bool:
    """Whether an old record is that of the same run and did not fail; a final one also serves a trial."""
    if old is None or "error" in old:
        return False
    same = all(old[key] == identity[key] for key in IDENTITY if key != "provisional")
    return same and old["provisional"] <= identity["provisional"]


def seconds_left(todo: list[tuple[str, str]], spent: Results, earlier: Results) -> float | None:
    """Seconds that runs to come will take, by their last time or by the mean of their model so far."""
    total = 0.0
    for data, model in todo:
        old = earlier.get((data, model), {}).get("process_s")
        alike = [r["process_s"] for (_, m), r in spent.items() if m == model and "process_s" in r]
        if old is None and not alike:
            return None
        total += old if old is not None else statistics.mean(alike)
    return total


# --- the run --------------------------------------------------------------------------------------


def run_all(
    names: list[str],
    contestants: dict[str, Contestant],
    folder: Path | None,
    provisional: bool,
    known: Results,
    keep: Callable[[Results], None],
) -> Results:
    """Records of all models on all sets, and earlier ones of other models on these sets.

    ``keep`` is called after every run.
    """
    versions: dict[str, str] = {}
    problems: dict[str, str] = {}
    wanted: Results = {}
    with tempfile.TemporaryDirectory() as scratch:
        sizes = {}
        for name in names:
            problem = load_problem(folder, name)
            problem.save(Path(scratch) / f"{name}.npz")
            problems[name], sizes[name] = digest(problem), len(problem.y)
        for model, contestant in contestants.items():
            try:
                versions[model] = version(contestant)
            except RuntimeError as error:
                print(f"WITHOUT {contestant.label}: {error}", file=sys.stderr)
        for data in names:
            for model in versions:
                wanted[data, model] = {
                    "data": data,
                    "model": model,
                    "version": versions[model],
                    "options": contestants[model].options,
                    "problem": problems[data],
                    "provisional": provisional,
                }
        todo = [key for key, identity in wanted.items() if not is_known(known.get(key), identity)]
        print(f"{len(wanted) - len(todo)} runs known, {len(todo)} to do", file=sys.stderr)
        earlier: Results = dict(known)
        spent: Results = {}
        for i, key in enumerate(todo):
            left = seconds_left(todo[i:], spent, earlier)
            clock = "" if left is None else f"  {left / 60:.0f} min left"
            print(
                f"{i + 1:>4}/{len(todo)}{clock}  {key[0]:<20} {key[1]:<22}",
                end=" ",
                file=sys.stderr,
                flush=True,
            )
            found = run_contestant(contestants[key[1]], Path(scratch) / f"{key[0]}.npz", sizes[key[0]])
            known[key] = spent[key] = {**wanted[key], **found}
            keep(known)
            print(outcome(known[key]), file=sys.stderr, flush=True)
    return {key: record for key, record in known.items() if key[0] in problems}


def run_contestant(contestant: Contestant, problem_file: Path, n_rows: int) -> Record:
    """What a contestant came to, or a ``note`` why it was left out or stopped, or an ``error``."""
    if contestant.max_rows is not None and n_rows > contestant.max_rows:
        return {"note": f"left out: {n_rows} rows, more than {contestant.max_rows}"}
    return run(contestant.kind, contestant.options, problem_file, contestant.limit_s)


def outcome(record: Record) -> str:
    """A record in a few words."""
    if "error" in record:
        return f"FAILED: {record['error']}"
    if "note" in record:
        return record["note"]
    curve = curve_of(record)
    text = f"log-loss {curve.best:.4f} after {curve.first_at(curve.best):.2f} of {curve.total:.2f} s"
    return f"{text} ({record['stopped']})" if "stopped" in record else text


def curve_of(record: Record) -> Curve:
    """The curve in a record."""
    return Curve(record["seconds"], record["log_loss"])


# --- the report -----------------------------------------------------------------------------------


def table(results: Results) -> list[Record]:
    """One row per set and model: log-loss at the end and at best, accuracy, seconds."""
    rows = []
    for (data, model), record in results.items():
        row: Record = {"data": data, "model": model}
        if "seconds" in record:
            curve = curve_of(record)
            row |= {
                "log_loss": curve.log_loss[-1],
                "best_log_loss": curve.best,
                "best_s": curve.first_at(curve.best),
                "total_s": curve.total,
            }
        copied = (
            *("accuracy", "accuracy_at_best", "compile_s", "processor_s", "unwatched_s"),
            *("note", "error", "stopped"),
        )
        rows.append(row | {key: record[key] for key in copied if key in record})
    return rows


def print_report(summary: Record, results: Results) -> None:
    for (data, model), record in results.items():
        if {"error", "note", "stopped"} & record.keys():
            print(f"{data}, {CONTESTANTS[model].label}: {outcome(record)}")
    print(f"\n{'race':<20} {'peer':<28} {'target':>8} {'theirs, s':>10} {'ours, s':>9} {'ratio':>8}")
    for r in summary["races"]:
        theirs = f"{'≥' if r['at_least'] else ''}{r['peer_s']:.3f}"
        ours = "never" if r["ours_s"] is None else f"{r['ours_s']:.3f}"
        label = CONTESTANTS[r["peer"]].label
        print(f"{r['data']:<20} {label:<28} {r['target']:>8.4f} {theirs:>10} {ours:>9} {r['ratio']:>8.4f}")
    for part in ("digits", "suite"):
        for peer in PEERS:
            if (ratio := summary[part].get(f"time_ratio_{peer}")) is not None:
                aim = AIMS[part].get(peer)
                text = f"{part}, {CONTESTANTS[peer].label}: 1/{1 / ratio:.1f}"
                missed = summary[part].get(f"not_reached_{peer}")
                text += f" (aim 1/{aim})" if aim else ""
                print(text + (f"; never arrived: {', '.join(missed)}" if missed else ""))


def parse_option(text: str) -> tuple[str, str, Any]:
    """``MODEL.OPTION=VALUE`` with the value as JSON."""
    name, _, value = text.partition("=")
    model, _, option = name.partition(".")
    if model not in CONTESTANTS or not option or not value:
        raise argparse.ArgumentTypeError(
            f"{text!r}: give MODEL.OPTION=VALUE, such as gpflow.learning_rate=0.05"
        )
    return model, option, json.loads(value)


def main() -> int:
    names = [DIGITS, *SETS]
    parser = command_line(__doc__, data="folder of PMLB sets (else BAYESVM_DATA)")
    parser.add_argument(
        "--subset", nargs="+", choices=names, metavar="NAME", default=names, help="only these sets"
    )
    parser.add_argument(
        "--models", nargs="+", choices=list(CONTESTANTS), default=list(CONTESTANTS), metavar="MODEL"
    )
    parser.add_argument("--repeats", type=int, help="repetitions of BayesianSVC (default: 3)")
    parser.add_argument(
        "--set", dest="options", action="append", type=parse_option, default=[], metavar="MODEL.OPTION=VALUE"
    )
    parser.add_argument("--provisional", action="store_true", help="a trial; a run without this repeats it")
    parser.add_argument("--results", type=Path, default=RESULTS / "peers.jsonl")
    arguments = parser.parse_args()
    if arguments.repeats is not None:
        arguments.options.append((OURS, "repeats", arguments.repeats))
    contestants = {name: CONTESTANTS[name] for name in CONTESTANTS if name in arguments.models}
    for model, option, value in arguments.options:
        if model in contestants:
            contestants[model] = with_option(contestants[model], option, value)
    folder = folder_of_sets(arguments.data) if set(arguments.subset) != {DIGITS} else None
    if not arguments.provisional and os.getloadavg()[0] > 0.5:
        print(
            f"WARNING: the machine is busy (load {os.getloadavg()[0]:.1f}): do not quote times",
            file=sys.stderr,
        )

    results = run_all(
        arguments.subset,
        contestants,
        folder,
        arguments.provisional,
        read_results(arguments.results),
        lambda results: write_results(arguments.results, results),
    )
    curves = {key: curve_of(record) for key, record in results.items() if "seconds" in record}
    ran = {model for _, model in results}
    summary = summarise(curves, [peer for peer in PEERS if peer in ran])
    print_report(summary, results)
    write_json(
        arguments.json,
        {**summary, "table": table(results)},
        threads=1,
        split=SPLIT,
        provisional=any(r["provisional"] for r in results.values()),
        models={model: record["version"] for (_, model), record in results.items()},
        options={m: c.options for m, c in {**CONTESTANTS, **contestants}.items() if m in ran},
    )
    missing = set(contestants) - ran
    return 1 if missing or any("error" in r for r in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
