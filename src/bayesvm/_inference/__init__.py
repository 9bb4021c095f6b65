"""Ways of fitting the variational posterior."""

from __future__ import annotations
