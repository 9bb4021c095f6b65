"""The race as arithmetic: who reached which test log-loss when, and the ratios of those times.

Nothing here fits or measures anything; peers.py does and calls this.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

__all__ = [
    "AIMS",
    "DIGITS",
    "OURS",
    "REFERENCE",
    "Curve",
    "Race",
    "geometric_mean",
    "race",
    "race_all",
    "summarise",
]

DIGITS = "digits"
OURS = "bayesvm"
REFERENCE = "gpflow"  # whose target everybody runs for on digits
# How many times sooner we mean to be.
AIMS = {"digits": {"gpflow": 30, "gpytorch": 60}, "suite": {"gpflow": 20, "gpytorch": 40}}


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
