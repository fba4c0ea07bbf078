# SPDX-License-Identifier: Apache-2.0
"""Archives of anybody: what cannot be read ends in one kind of error."""

import io
import struct
import zipfile

import numpy as np
import pytest
from support.randomness import fresh_rng

from tilewright.host.common.zip_archives import add_member, read_member

DIRECTORY_ENTRY = b"PK\x01\x02"


def archive_of(**members: bytes) -> bytearray:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in members.items():
            add_member(archive, name, data)
    return bytearray(content.getvalue())


def read(data: bytes, name: str = "a") -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return read_member(archive, name, 1 << 20)


def with_entry(data: bytearray, offset: int, form: str, value: int) -> bytearray:
    """One field of the directory's first entry changed."""
    struct.pack_into(form, data, data.index(DIRECTORY_ENTRY) + offset, value)
    return data


def test_what_is_written_is_read() -> None:
    assert read(archive_of(a=b"abc" * 100)) == b"abc" * 100


@pytest.mark.parametrize(
    ("offset", "form", "value"),
    [
        pytest.param(24, "<I", 1 << 16, id="it is shorter than it says"),
        pytest.param(10, "<H", 99, id="unknown compression"),
        pytest.param(8, "<H", 1, id="encrypted"),
        pytest.param(16, "<I", 12345, id="another checksum"),
    ],
)
def test_a_damaged_directory_is_a_value_error(offset: int, form: str, value: int) -> None:
    with pytest.raises(ValueError, match=r"^a"):
        read(with_entry(archive_of(a=b"abc" * 100), offset, form, value))


def test_bytes_beyond_the_end_are_a_value_error() -> None:
    data = archive_of(a=fresh_rng().bytes(300))
    # Its size, compressed and not, in front of the end; the end itself does not move.
    with_entry(with_entry(data, 20, "<I", 1 << 16), 24, "<I", 1 << 16)
    with pytest.raises(ValueError, match=r"^a"):
        read(data)


def test_any_damaged_byte_is_a_value_error_or_harmless() -> None:
    whole = archive_of(a=fresh_rng().bytes(200), b=b"x" * 50)
    rng = np.random.default_rng(int(fresh_rng().integers(1 << 30)))
    for _ in range(2000):
        data = bytearray(whole)
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        try:
            read(data)
        except (ValueError, KeyError):
            continue
        except (zipfile.BadZipFile, NotImplementedError, OSError):
            continue  # no archive at all, or one of a later version
