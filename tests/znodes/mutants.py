"""Hostile bytes and names, drawn from a seeded random source: pure junk, valid documents with
something done to them, and documents that obey the grammar and mean nothing.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Sequence

Make = Callable[[random.Random, bytes, Sequence[bytes]], bytes]

BYTES_MAX = 96 * 1024
WORDS = (
    b"null",
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"-0",
    b"0x10",
    b"9" * 40,
    b'"\\ud800"',
    b'"\\u0000"',
    b"true",
    b"[]",
    b"{}",
    b'""',
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xc0\x80",
    "٣".encode(),
    b'{"a":1,"a":2}',
    b"/",
    b"..",
    b"\x00",
    b"\n",
    b"\\",
    b'"',
    b"[",
    b"{",
    b"}",
    b"]",
    b",",
    b":",
)
BOMBS = (
    lambda n: b"[" * n,
    lambda n: b'{"a":' * (n // 5),
    lambda n: b'"' + b'\\"' * (n // 2),
    lambda n: b"9" * n,
    lambda n: b"{" + b",".join(b'"k%d":1' % i for i in range(n // 12)) + b"}",
    lambda n: (
        b'{"version":1,"subscription":{'
        + b",".join(b'"t%d":1' % i for i in range(n // 12))
        + b'},"pattern":"static","timestamp":"1"}'
    ),
    lambda n: b'{"' + b"x" * n + b'":1}',
    lambda n: (
        b'{"pattern":"white_list","version":1,"timestamp":"1","subscription":{"'
        + b"(a+)+" * (n // 5)
        + b'$":1}}'
    ),
    lambda n: b" " * n + b"{}",
)
VALUES = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    -(2**63),
    10**30,
    0.5,
    1e300,
    "",
    "0",
    "1",
    "-1",
    " 1",
    "1_0",
    "٣",
    "a-0",
    "t-0",
    "m-0",
    "/",
    "..",
    "\x00",
    "é",
    "x" * 300,
    "x" * 60_000,
    [],
    [1],
    ["a-0"],
    {},
    {"a": 1},
    {"t-0": "m-0"},
    {"t": 0},
    {"t": 10**9},
    [[[[[[[[[[]]]]]]]]]],
    "static",
    "white_list",
    "cooperative",
    "eager",
    "range,sticky",
    ",",
    "a,b,,c",
)
NAMES = (
    "x",
    "m",
    "g_h-1700000000000-00c0ffee",
    "..",
    "zookeeper",
    "a b",
    "é",
    "٣",
    "-",
    "-0",
    "t-0",
    "00",
    "0",
    "999999999",
    "1000000000",
    "7-1-0000000000",
    "7-1-",
    "x" * 249,
    "x" * 250,
    "x" * 641,
    "x" * 60_000,
    "‮",
    "\x7f",
    "coordinator",
    "ids",
    "owners",
    "channel",
    "offsets",
    "requests",
)


def name(rng: random.Random) -> str:
    """A name that somebody may have given a node."""
    return (
        rng.choice(NAMES)
        if rng.random() < 0.7
        else "".join(
            chr(rng.choice((rng.randrange(33, 127), rng.randrange(0xA0, 0xD7FF))))
            for _ in range(rng.randrange(1, 12))
        ).replace("/", "_")
    )


def mutant(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Hostile bytes, made from valid documents of one kind."""
    seed = rng.choice(seeds)
    data = rng.choices(MAKERS, WEIGHTS)[0](rng, seed, seeds)
    return data if len(data) <= BYTES_MAX or rng.random() < 0.1 else data[:BYTES_MAX]


def _junk(rng: random.Random, seed: bytes, seeds: Sequence[bytes]) -> bytes:
    return rng.randbytes(rng.choice((0, 1, 2, 8, 60, 400)))


def _flipped(rng: random.Random, seed: bytes, seeds: Sequence[bytes]) -> bytes:
    data = bytearray(seed)
    for _ in range(rng.choice((1, 1, 1, 2, 5, 20))):
        data[rng.randrange(len(data))] = rng.choice(
            (rng.randrange(256), 0, 34, 57, 92, 125, 128, 255)
        )
    return bytes(data)


def _cut(rng: random.Random, seed: bytes, seeds: Sequence[bytes]) -> bytes:
    a, b = sorted((rng.randrange(len(seed) + 1), rng.randrange(len(seed) + 1)))
    return rng.choice((seed[:a], seed[a:], seed[:a] + seed[b:], seed[:b] + seed[a:]))


def _spliced(rng: random.Random, seed: bytes, seeds: Sequence[bytes]) -> bytes:
    other = rng.choice(seeds)
    return seed[: rng.randrange(len(seed) + 1)] + other[rng.randrange(len(other) + 1) :]


def _filled(rng: random.Random, seed: bytes, seeds: Sequence[bytes]) -> bytes:
    at = rng.randrange(len(seed) + 1)
    return seed[:at] + rng.choice(WORDS) + seed[at + rng.choice((0, 0, 1, 3)) :]


def _grammar(rng: random.Random, seed: bytes, seeds: Sequence[bytes]) -> bytes:
    """A document whose fields hold anything, are missing, or stand there twice."""
    if not seed.startswith(b"{"):
        return str(rng.choice(VALUES)).encode()
    document = json.loads(seed)
    for _ in range(rng.choice((1, 1, 2, 4))):
        holder = rng.choice([document, *(v for v in document.values() if isinstance(v, dict))])
        keys = list(holder)
        deed = rng.randrange(4)
        if deed == 0 and keys:
            del holder[rng.choice(keys)]
        elif deed == 1:
            holder[rng.choice(NAMES)] = copy.deepcopy(rng.choice(VALUES))
        elif keys:
            holder[rng.choice(keys)] = copy.deepcopy(rng.choice(VALUES))
    text = json.dumps(document, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.05:
        text = text[:-1] + f",{json.dumps(rng.choice(list(document) or ['a']))}:1}}"
    return text.encode(
        rng.choice(("utf-8",) * 12 + ("utf-16", "utf-16-le", "utf-32", "utf-8-sig")),
        "surrogatepass",
    )


def _bomb(rng: random.Random, seed: bytes, seeds: Sequence[bytes]) -> bytes:
    return rng.choice(BOMBS)(rng.choice((100, 1_000, 10_000, 65_000, 65_537, 200_000)))


MAKERS: tuple[Make, ...] = (_junk, _flipped, _cut, _spliced, _filled, _grammar, _bomb)
WEIGHTS = (10, 25, 12, 12, 15, 25, 1)
