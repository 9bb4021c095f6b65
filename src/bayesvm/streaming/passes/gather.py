"""All rows in one place, where they are few."""

from __future__ import annotations

from dataclasses import dataclass

from bayesvm.streaming.chunks import Chunk, joined

__all__ = ["Gathered", "gather"]


@dataclass(frozen=True)
class Gathered:
    """Chunks in their order."""

    chunks: list[Chunk]

    def plus(self, other: Gathered) -> Gathered:
        return Gathered(self.chunks + other.chunks)

    def rows(self) -> Chunk:
        """All rows as one chunk."""
        return joined(self.chunks)


def gather(chunk: Chunk) -> Gathered:
    """The pass that brings all rows here."""
    return Gathered([chunk])
