"""Records of arrays in a line: what a log needs to know of an array is its shape."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

__all__ = ["Brief"]


class Brief:
    """Base of dataclasses that hold arrays; these must be made with ``repr=False``."""

    __slots__ = ()

    def __repr__(self) -> str:
        parts = (f"{f.name}={_brief(getattr(self, f.name))}" for f in fields(self))  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(parts)})"


def _brief(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"<{value.dtype} of shape {value.shape}>"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {_brief(part)}' for key, part in value.items())}}}"
    return repr(value)
