"""Damage to files: bytes changed, cut, repeated or replaced by what parsers find hard."""

from __future__ import annotations

import random

#: Texts that numbers, names and separators are replaced by.
TOKENS = [
    *(
        b"nan",
        b"NaN",
        b"inf",
        b"-inf",
        b"Infinity",
        b"null",
        b"",
        b"-0",
        b"-1",
        b"1e999",
        b"1e-999",
    ),
    *(b"5e-324", b"9007199254740993", b"18446744073709551616", b"0x10", b"1_000", b"1,5", b" 1 "),
    *(b"true", b"False", b'""', b'"', b",", b"\n", b"\r\n", b"\r", b"\t", b"\x00", b"\xff\xfe"),
    *(b"\xef\xbb\xbf", b"{", b"}", b"[", b"]", b":", b"[" * 300, b'{"a":' * 300, b"9" * 400),
    *("\u0661\u0662".encode(), "\u00e9".encode(), b"\xe2\x80\xae", b"=1+1", b"'; drop table x; --"),
]


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Return data with one to four changes; a function of the generator's state."""
    found = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 4])):
        rng.choice(CHANGES)(found, rng)
    return bytes(found)


def _place(data: bytearray, rng: random.Random) -> int:
    """Return a place, often near the end, where Parquet and Arrow keep their footers."""
    if rng.random() < 0.3:
        return max(0, len(data) - 1 - rng.randrange(300))
    return rng.randrange(len(data) + 1)


def _flip(data: bytearray, rng: random.Random) -> None:
    place = _place(data, rng)
    if place < len(data):
        data[place] ^= 1 << rng.randrange(8)


def _set(data: bytearray, rng: random.Random) -> None:
    place = _place(data, rng)
    if place < len(data):
        data[place] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])


def _cut(data: bytearray, rng: random.Random) -> None:
    place = _place(data, rng)
    del data[place : place + rng.choice([1, 2, 4, 16, 1000])]


def _end(data: bytearray, rng: random.Random) -> None:
    del data[_place(data, rng) :]


def _repeat(data: bytearray, rng: random.Random) -> None:
    place, size = _place(data, rng), rng.choice([1, 4, 40, 400])
    data[place:place] = data[place : place + size]


def _insert(data: bytearray, rng: random.Random) -> None:
    place = _place(data, rng)
    data[place:place] = rng.choice(TOKENS)


def _replace_field(data: bytearray, rng: random.Random) -> None:
    """Replace what stands between two separators of text: a field, a value, a key."""
    separators = b',\n:{}[]"'
    start = end = _place(data, rng)
    while start > 0 and data[start - 1] not in separators and end - start < 60:
        start -= 1
    while end < len(data) and data[end] not in separators and end - start < 60:
        end += 1
    data[start:end] = rng.choice(TOKENS)


def _swap(data: bytearray, rng: random.Random) -> None:
    one, two = sorted((_place(data, rng), _place(data, rng)))
    size = min(rng.choice([1, 8, 64]), two - one, len(data) - two)
    if size > 0:
        first, second = data[one : one + size], data[two : two + size]
        data[one : one + size], data[two : two + size] = second, first


CHANGES = (_flip, _flip, _set, _cut, _end, _repeat, _insert, _replace_field, _replace_field, _swap)
