# SPDX-License-Identifier: Apache-2.0
"""A bundle as one ZIP file: the same content gives the same bytes, and anybody's file is safe.

ZIP and not tar: sizes are known before anything is decompressed, and nothing in it becomes a link.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.host.common.errors import ProgramError, reason_of
from tilewright.host.common.whole_file import MARK as WRITTEN
from tilewright.host.common.zip_archives import add_member, check_sizes, open_archive, read_member
from tilewright.host.deploy import bundle


def pack_bundle(facts: Mapping[str, Any], files: Mapping[str, bytes]) -> bytes:
    """The archive of a bundle."""
    described = {
        path: {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        for path, content in sorted(files.items())
    }
    manifest = json.dumps(
        {bundle.MARK: bundle.FORMAT, **facts, "files": described}, indent=1
    ).encode()
    bundle.checked_manifest(manifest, bundle.MANIFEST)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path, data in [(bundle.MANIFEST, manifest), *sorted(files.items())]:
            add_member(archive, path, data)
        archive.comment = WRITTEN.encode()
    return content.getvalue()


def unpack_bundle(archive_path: Path, folder: Path) -> bundle.Bundle:
    """Unpack an archive from anybody into an empty folder, and read the bundle.

    Only what its manifest names is written, at paths that lie below the folder.
    """
    try:
        with open_archive(archive_path) as archive:
            check_sizes(archive, archive_path)
            manifest = read_member(archive, bundle.MANIFEST, bundle.MAX_MANIFEST_BYTES)
            files = bundle.checked_manifest(manifest, f"{archive_path}: {bundle.MANIFEST}")["files"]
            other = set(archive.namelist()) - set(files) - {bundle.MANIFEST}
            if other:
                raise ValueError(f"{min(other)[:60]!r} is not in its manifest")
            (folder / bundle.MANIFEST).write_bytes(manifest)
            for path, stated in files.items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(read_member(archive, path, stated["bytes"]))
    except OSError as error:
        raise ProgramError(
            f"cannot be unpacked ({error.strerror or error})",
            field=str(archive_path),
            remedy="check the path, and free space for temporary files",
        ) from error
    except (
        LookupError,
        NotImplementedError,
        RuntimeError,
        ValueError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise ProgramError(
            f"must be a bundle ({reason_of(error, 120)})",
            field=str(archive_path),
            remedy="make it with 'tilewright deploy'",
        ) from error
    return bundle.read_bundle(folder)
