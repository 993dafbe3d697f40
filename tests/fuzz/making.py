"""Inputs without a fuzzer: a harness's seeds, and what a seeded source of numbers makes of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from tests.fuzz.harness import Harness

DEEDS_MAX = 8
CUT_MAX = 20


def inputs(harness: Harness, count: int, seed: int = 0) -> Iterator[bytes]:
    """All seeds, then as many more as `count` says. The same each time."""
    seeds = [bytes(one)[: max(harness.bytes_max, len(one))] for one in harness.seeds()]
    yield from seeds
    rng = random.Random(f"{harness.name} {seed}")
    for _ in range(count):
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.choice((1, 1, 2, 4, DEEDS_MAX))):
            _changed(rng, data, harness.words, seeds)
        yield bytes(data[: harness.bytes_max])


def _changed(
    rng: random.Random, data: bytearray, words: Sequence[bytes], seeds: Sequence[bytes]
) -> None:
    """One thing done to it."""
    at, deed = rng.randrange(len(data) + 1), rng.randrange(6)
    if deed == 0 and data:
        data[at % len(data)] = rng.choice((rng.randrange(256), 0, 34, 92, 127, 128, 255))
    elif deed == 1 and words:
        data[at:at] = rng.choice(words)
    elif deed == 2:
        del data[at : at + rng.randrange(1, CUT_MAX)]
    elif deed == 3:
        other = rng.choice(seeds)
        data[at:] = other[rng.randrange(len(other) + 1) :]
    elif deed == 4:
        data[at:at] = data[at // 2 : at]
    elif data:
        data[at % len(data)] ^= 1 << rng.randrange(8)


def smaller(data: bytes, is_it: Callable[[bytes], bool], tries_max: int = 2_000) -> bytes:
    """The smallest part of an input that is found to be it still: pieces are taken out, the largest
    first, then bytes become `0`.
    """
    tries, size = 0, max(1, len(data) // 2)
    while size:
        at = 0
        while at < len(data) and tries < tries_max:
            tries += 1
            shorter = data[:at] + data[at + size :]
            if is_it(shorter):
                data = shorter
            else:
                at += size
        size //= 2
    for at in range(len(data)):
        if data[at : at + 1] != b"0" and tries < tries_max:
            tries += 1
            plainer = data[:at] + b"0" + data[at + 1 :]
            data = plainer if is_it(plainer) else data
    return data
