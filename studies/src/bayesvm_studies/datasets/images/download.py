"""Downloading an image set with pooch, and unpacking the archive of CIFAR-10."""

from __future__ import annotations

import os
import tarfile
import uuid
import zlib
from importlib import import_module
from pathlib import Path

from bayesvm_studies.datasets.errors import DatasetError
from bayesvm_studies.datasets.images.catalogue import ImageSetInfo


def download_set(info: ImageSetInfo, target: Path) -> None:
    """Put the files of a set into a folder; what does not have the published hash is not kept.

    Raises ImportError if pooch is not installed and DatasetError if no
    mirror has the files.

    Parameters
    ----------
    info : ImageSetInfo
    target : Path
        Made if it is not there.
    """
    pooch = import_module("pooch")
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatasetError(f"{target} cannot be made: {error}") from error
    for name, known in info.hashes.items():
        failures = []
        for mirror in info.mirrors:
            try:
                pooch.retrieve(mirror + name, known_hash=f"sha256:{known}", fname=name, path=target)
            except (
                Exception
            ) as error:  # whatever requests makes of a missing network; ValueError for a wrong hash
                failures.append(f"{mirror}{name}: {type(error).__name__}: {error}")
            else:
                break
        else:
            raise DatasetError("; ".join(failures))
        if name.endswith(".tar.gz"):
            unpack_batches(target / name, target)
            (target / name).unlink()


def unpack_batches(archive: Path, target: Path) -> None:
    """Write the plain files of an archive into one folder, each complete or not at all.

    Only names count, not paths: nothing can land outside of the folder.

    Parameters
    ----------
    archive : Path
        Such as ``cifar-10-python.tar.gz``.
    target : Path
    """
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isfile() else None
                if content is None:
                    continue
                part = target / f"{uuid.uuid4().hex}.part"
                try:
                    part.write_bytes(content.read())
                    os.replace(part, target / Path(member.name).name)
                finally:
                    part.unlink(missing_ok=True)
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise DatasetError(f"{archive} cannot be unpacked: {error}") from error
