"""Exit statuses; docs/command_line.md lists them."""

from __future__ import annotations

__all__ = ["BROKEN_PIPE", "DONE", "FAULT", "INTERRUPTED", "REFUSED"]

DONE = 0
FAULT = 1
REFUSED = 2
INTERRUPTED = 130
BROKEN_PIPE = 141
