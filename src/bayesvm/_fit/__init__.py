"""Fits to data that come in chunks of rows: passes over the chunks, each of them a sum."""

from __future__ import annotations
