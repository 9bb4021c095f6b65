"""What happened in a run, in order, as plain JSON: enough to be where it was."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from bayesvm.active.labels import sorted_classes
from bayesvm.files import replacing

__all__ = ["Event", "Record", "Round", "read_record", "write_record"]

_FORMAT = 2


class Round(NamedTuple):
    """One round of questions.

    Attributes
    ----------
    rows, labels : list
        What was told.
    n_labelled : int
        Labelled rows after it.
    seconds : float
        Choosing the rows and learning from their labels, without waiting for them.
    loo_accuracy : float or None
        Leave-one-out accuracy after it.
    """

    rows: list[int]
    labels: list[Any]
    n_labelled: int
    seconds: float
    loo_accuracy: float | None


@dataclass
class Event:
    """Labels told, or rows skipped.

    Attributes
    ----------
    kind : str
        "start", "tell" or "skip".
    rows, labels : list
    learned_from : int
        Groups of labels that the model's kernel was learned from, once learned.
    seconds, loo_accuracy : float or None
    skipped : list of int
        Rows told that had been skipped before.
    """

    kind: str
    rows: list[int]
    labels: list[Any]
    learned_from: int = 0
    seconds: float | None = None
    loo_accuracy: float | None = None
    skipped: list[int] = field(default_factory=list)


@dataclass
class Record:
    """All that happened.

    Attributes
    ----------
    given : list
        Classes named at the start.
    events : list of Event
        The first has the labels of the start.
    """

    given: list[Any]
    events: list[Event]

    def add(self, event: Event) -> None:
        """One more event; mixing kinds of labels is refused before anything changes."""
        sorted_classes([*self.classes(), *event.labels])
        self.events.append(event)

    def pop(self) -> Event | None:
        """Take the last event away, if it is not the start."""
        return self.events.pop() if len(self.events) > 1 else None

    def finish(self, learned_from: int, seconds: float | None, loo_accuracy: float | None) -> None:
        """Note what the latest labels did to the model."""
        last = self.told()[-1]
        last.learned_from = learned_from
        last.loo_accuracy = loo_accuracy
        if seconds is not None:
            last.seconds = seconds

    def told(self) -> list[Event]:
        """Events with labels."""
        return [event for event in self.events if event.kind != "skip"]

    def learned_from(self) -> int:
        """Groups of labels that the model's kernel was learned from."""
        return self.told()[-1].learned_from

    def classes(self) -> list[Any]:
        """Labels named or told so far."""
        return sorted_classes([*self.given, *(label for event in self.events for label in event.labels)])

    def skipped(self) -> list[int]:
        """Rows skipped and not told since."""
        told = {row for event in self.told() for row in event.rows}
        return [row for event in self.events if event.kind == "skip" for row in event.rows if row not in told]

    def n_asked(self) -> int:
        """Rows told or skipped since the start."""
        return sum(len(event.rows) for event in self.events[1:])

    def rounds(self) -> list[Round]:
        """One per answer after the start."""
        n_labelled = len(self.events[0].rows)
        out = []
        for event in self.told()[1:]:
            n_labelled += len(event.rows)
            seconds = 0.0 if event.seconds is None else event.seconds
            out.append(Round(event.rows, event.labels, n_labelled, seconds, event.loo_accuracy))
        return out


def write_record(
    path: str | os.PathLike[str], settings: dict[str, Any], record: Record, more: dict[str, Any]
) -> None:
    """Write a file that is complete or not there, whenever the power goes."""
    content = {
        "format": _FORMAT,
        "settings": settings,
        **more,
        "classes": record.given,
        "events": [asdict(event) for event in record.events],
    }
    with replacing(path) as part, part.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=None, ensure_ascii=False)
        file.flush()
        os.fsync(file.fileno())


def read_record(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Record, dict[str, Any]]:
    """Settings, what happened, and the rest of a file."""
    with open(path, encoding="utf-8") as file:
        try:
            content = json.load(file)
            form = content["format"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is not a file of an ActiveLearner") from error
    if form != _FORMAT:
        raise ValueError(f"{path} has format {form}; this version reads {_FORMAT}")
    try:
        record = Record(content["classes"], [Event(**event) for event in content["events"]])
        return (
            content["settings"],
            record,
            {name: content[name] for name in ("pool", "estimator", "begun_at")},
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} is a file of an ActiveLearner of which parts are missing") from error
