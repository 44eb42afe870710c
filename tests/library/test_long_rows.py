"""Rows too long for the budget, by the letter: whatever the pieces in which a file is read."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibkit.errors import ResourceError
from calibkit.files import streams

texts = st.text(alphabet='ab",\n', max_size=60)


def longest_row(text: str, *, quoted: bool) -> int:
    """Return how many characters the longest row has, line feeds at its end left out."""
    longest = length = 0
    inside = False
    for sign in text:
        inside ^= quoted and sign == '"'
        length = 0 if sign == "\n" and not inside else length + 1
        longest = max(longest, length)
    return longest


@settings(max_examples=100)
@given(text=texts, chunk=st.integers(1, 9), more=st.integers(0, 9), quoted=st.booleans())
def test_a_row_is_refused_that_is_too_long(
    text: str, chunk: int, more: int, quoted: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    longest = chunk + more  # pieces are small beside any row that is refused
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    path.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "_LEAST", 1)
        patch.setattr(streams, "_CHUNK", chunk)
        if longest_row(text, quoted=quoted) <= longest:
            streams.refuse_endless(path, "rows.csv", longest, quoted=quoted)
            return
        with pytest.raises(ResourceError, match=re.escape(f"more than {longest:,} bytes")):
            streams.refuse_endless(path, "rows.csv", longest, quoted=quoted)
