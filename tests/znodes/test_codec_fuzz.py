"""No bytes raise out of the codec: random ones, valid documents with bytes changed, values of any
type in any field.
"""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.znodes.seeds import DECODERS, LAX
from zkcoord.core.model import Malformed
from zkcoord.znodes import codec


def test_every_decoder_of_the_codec_is_here() -> None:
    """By name: `decode_partition_state` is "partition state"."""
    known = {f"decode_{kind.replace(' ', '_')}" for kind in DECODERS}
    missing = {name for name in codec.__all__ if name.startswith("decode_")} - known
    assert not missing, f"DECODERS in tests/znodes/seeds.py lacks {missing}"


EACH = pytest.mark.parametrize("kind", DECODERS)
junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["0", "a-0", "m-0", "static", "1", "/", "\x00"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=3) | st.sampled_from(["a-0", "t", "instance", "partitions"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


def check(kind: str, data: bytes) -> None:
    """Decode, and look at a refusal: it can be printed."""
    found = DECODERS[kind][0](data)
    if isinstance(found, Malformed):
        assert found.reason and found.reason.isprintable() and len(found.reason) < 1_000


@EACH
@given(data=st.binary(max_size=200))
def test_random_bytes(kind: str, data: bytes) -> None:
    check(kind, data)


@EACH
def test_valid_documents_with_bytes_changed(kind: str) -> None:
    rng = random.Random(kind)
    for seed in DECODERS[kind][1]:
        assert not isinstance(DECODERS[kind][0](seed), Malformed)
        for at in range(len(seed)):
            for byte in {rng.randrange(256), seed[at] ^ 1, seed[at] ^ 128, 0, 34, 57, 92, 125}:
                check(kind, seed[:at] + bytes([byte]) + seed[at + 1 :])
            check(kind, seed[:at])
            check(kind, seed[:at] + seed[at + 1 :])
            check(kind, seed[:at] + seed[at:] + seed[at:])


@EACH
@settings(max_examples=150)
@given(data=st.data())
def test_any_value_in_any_field(kind: str, data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(DECODERS[kind][1]))
    if not seed.startswith(b"{"):
        return
    document = json.loads(seed)
    document[data.draw(st.sampled_from(sorted(document)))] = data.draw(junk)
    check(kind, json.dumps(document).encode("utf-8", "surrogatepass"))


@EACH
@pytest.mark.parametrize(
    "data",
    [
        b"[" * 65_536,
        b'{"a":' * 13_000,
        b'"' + b'\\"' * 32_000,
        b"9" * 65_536,
        b"{" + b'"a":1,' * 10_000 + b'"b":1}',
        b"x" * 2_000_000,
    ],
    ids=["lists", "objects", "quotes", "digits", "keys", "long"],
)
def test_bombs(kind: str, data: bytes) -> None:
    assert isinstance(DECODERS[kind][0](data), Malformed) or kind in LAX


@EACH
def test_what_is_decoded_says_the_same_again(kind: str) -> None:
    for seed in DECODERS[kind][1]:
        assert DECODERS[kind][0](seed) == DECODERS[kind][0](seed)
