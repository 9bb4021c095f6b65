"""Files of compiled predictors: arrays and a description, no code.

The format is numpy's ``.npz`` without pickles. One entry is a JSON text that
describes how the object is built from the arrays; only types listed by the reader, and
registered kernels and likelihoods, are instantiated.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayesvm._compiled.kernels import NotRegisteredError
from bayesvm._files import replacing
from bayesvm._version import __version__

_FORMAT = 4
_DESCRIPTION = "description"
# Exceptions of numpy for foreign, truncated or damaged files.
_UNREADABLE = (
    TypeError,
    ValueError,
    AttributeError,
    KeyError,
    EOFError,
    RuntimeError,
    zlib.error,
    zipfile.BadZipFile,
)


def write(value: Any, path: str | os.PathLike[str], types: Iterable[type]) -> Path:
    """Write an object to a file, atomically.

    Parameters
    ----------
    value : dataclass
        Of plain values, arrays, tuples and dataclasses of the types.
    path : str or path
    types : iterable of type

    Raises
    ------
    TypeError
        If a part of it is a kernel or a likelihood that is not registered, or a label of the user's own type.
    """
    arrays: dict[str, Any] = {}
    packed = _packed(value, arrays, set(types))
    description = {"format": _FORMAT, "bayesvm": __version__, "content": packed}
    arrays[_DESCRIPTION] = np.array(json.dumps(description))
    with replacing(path) as part, part.open("wb") as stream:
        np.savez(stream, **arrays)
    return Path(path)


def read(path: str | os.PathLike[str], types: Iterable[type]) -> Any:
    """Read what ``write`` wrote.

    Raises
    ------
    ValueError
        If the file is not one of these, or of another format.
    """
    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    # numpy's message advises to allow pickles, which would run what is in the file: it is left out.
    try:
        with source.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except _UNREADABLE:
        raise ValueError(_refusal(source)) from None
    try:
        description = json.loads(str(arrays[_DESCRIPTION]))
        version = description["format"]
        named = {_name(t): t for t in types}
        made = _unpacked(description["content"], arrays, named) if version == _FORMAT else None
    except NotRegisteredError as error:
        raise ValueError(f"{source} contains {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{_refusal(source)} ({type(error).__name__}: {error})") from error
    if version != _FORMAT:
        raise ValueError(
            f"{source} was written by bayesvm {description.get('bayesvm')} in format {version!r}; this "
            f"version reads format {_FORMAT}: compile the predictor again"
        )
    return made


def _refusal(source: Path) -> str:
    return (
        f"{source} is not a compiled predictor, or it is damaged; give a file that "
        "CompiledPredictor.save wrote"
    )


def _packed(value: Any, arrays: dict[str, Any], types: set[type]) -> Any:
    """A description of a value; the arrays in it go into the dictionary."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.ndarray):
        return _packed_array(value, arrays)
    if isinstance(value, tuple):
        return {"tuple": [_packed(v, arrays, types) for v in value]}
    if isinstance(value, dict):
        return {"dict": {name: _packed(v, arrays, types) for name, v in value.items()}}
    kind = type(value)
    if kind in types or _registered_types().get(_name(kind)) is kind:
        parts = {f.name: _packed(getattr(value, f.name), arrays, types) for f in fields(kind)}
        return {"type": _name(kind), **parts}
    raise TypeError(
        f"a compiled predictor with {kind.__name__} in it cannot be written to a file that runs no code: it "
        "is not a dataclass that is registered as a kernel or likelihood. Register it (register_kernel of "
        "bayesvm.kernels, register_likelihood of bayesvm.extending), pickle the predictor, or save the "
        "estimator with bayesvm.save"
    )


def _name(kind: type) -> str:
    """Name of a type in files: the class of one of ours, whose module may change; else module and class."""
    ours = kind.__module__.partition(".")[0] == "bayesvm"
    return kind.__qualname__ if ours else f"{kind.__module__}.{kind.__qualname__}"


def _registered_types() -> dict[str, type]:
    """Registered kernels and likelihoods by type name; imported on demand, as they need torch."""
    from bayesvm._core.kernels import KERNEL_NAMES
    from bayesvm._core.likelihoods import LIKELIHOODS

    kinds = (*KERNEL_NAMES.values(), *(type(make()) for make in LIKELIHOODS.values()))
    return {_name(t): t for t in kinds if is_dataclass(t)}


def _registered(name: str) -> type:
    found = _registered_types()
    if name not in found and "." in name:
        raise NotRegisteredError(
            f"the kernel or likelihood {name}, which is not registered here: call register_kernel (of "
            "bayesvm.kernels) or register_likelihood (of bayesvm.extending) before the file is loaded"
        )
    return found[name]


def _packed_array(value: Any, arrays: dict[str, Any]) -> dict[str, Any]:
    name = f"array_{len(arrays)}"
    if value.dtype != object:
        arrays[name] = value
        return {"array": name}
    kinds = sorted({type(v).__name__ for v in value.tolist()})
    if kinds != ["str"]:
        raise TypeError(
            f"labels of the types {kinds} cannot be written to a file that runs no code; use strings or "
            "numbers"
        )
    arrays[name] = value.astype(np.str_)
    return {"array": name, "objects": True}


def _unpacked(packed: Any, arrays: dict[str, Any], types: dict[str, type]) -> Any:
    if not isinstance(packed, dict):
        return packed
    if "array" in packed:
        array = arrays[packed["array"]]
        return array.astype(object) if packed.get("objects") else array
    if "tuple" in packed:
        return tuple(_unpacked(v, arrays, types) for v in packed["tuple"])
    if "dict" in packed:
        return {key: _unpacked(value, arrays, types) for key, value in packed["dict"].items()}
    name = packed["type"]
    made = types[name] if name in types else _registered(name)
    return made(**{key: _unpacked(value, arrays, types) for key, value in packed.items() if key != "type"})
