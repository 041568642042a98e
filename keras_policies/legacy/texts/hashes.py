"""The two hashes that TensorFlow uses to put texts into bins, in plain Python.

`farm` is the hash of `tf.strings.to_hash_bucket_fast` (`farmhashna::Hash64` in
google/farmhash), and `sip` is that of `to_hash_bucket_strong` (SipHash-2-4).
"""

from typing import TypeAlias

Pair: TypeAlias = tuple[int, int]
MASK = 2**64 - 1
K0, K1, K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
# "somepseudorandomlygeneratedbytes"
SIP = 0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573


def _word(text: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(text[at : at + size], "little")


def _right(x: int, bits: int) -> int:
    """Rotate 64 bits to the right."""
    x &= MASK
    return (x >> bits | x << (64 - bits)) & MASK


def _mixed(x: int) -> int:
    x &= MASK
    return x ^ x >> 47


def _of_two(u: int, v: int, factor: int) -> int:
    first = _mixed((u ^ v) * factor)
    return _mixed((v ^ first) * factor) * factor & MASK


def farm(text: bytes) -> int:
    """Return the FarmHash64 fingerprint of a text."""
    size = len(text)
    if size > 64:
        return _long(text)
    factor = K2 + 2 * size
    if size > 16:
        return _medium(text, factor)
    if size >= 8:
        a, b = _word(text, 0) + K2, _word(text, size - 8)
        c, d = _right(b, 37) * factor + a, (_right(a, 25) + b) * factor
        return _of_two(c & MASK, d & MASK, factor)
    if size >= 4:
        first, last = _word(text, 0, 4), _word(text, size - 4, 4)
        return _of_two(size + (first << 3), last, factor)
    if not size:
        return K2
    y, z = text[0] + (text[size >> 1] << 8), size + (text[-1] << 2)
    return _mixed(y * K2 ^ z * K0) * K2 & MASK


def _medium(text: bytes, factor: int) -> int:
    size = len(text)
    is_short = size <= 32
    a, b = _word(text, 0) * (K1 if is_short else K2), _word(text, 8)
    c, d = _word(text, size - 8) * factor, _word(text, size - 16) * K2
    y = _right(a + b, 43) + _right(c, 30) + d & MASK
    z = _of_two(y, a + _right(b + K2, 18) + c & MASK, factor)
    if is_short:
        return z
    e, f = _word(text, 16) * factor, _word(text, 24)
    g = (y + _word(text, size - 32)) * factor
    h = (z + _word(text, size - 24)) * factor
    first = _right(e + f, 43) + _right(g, 30) + h
    return _of_two(first & MASK, e + _right(f + a, 18) + g & MASK, factor)


def _weak(text: bytes, at: int, a: int, b: int) -> Pair:
    w, x, y, z = (_word(text, at + 8 * i) for i in range(4))
    a += w
    b, c = _right(b + a + z, 21), a
    a += x + y
    return (a + z) & MASK, (b + _right(a, 44) + c) & MASK


def _long(text: bytes) -> int:
    end = (len(text) - 1) // 64 * 64
    v = w = 0, 0
    x, y = 81 * K2 + _word(text, 0), (81 * K1 + 113) & MASK
    z = _mixed(y * K2 + 113) * K2 & MASK
    for at in range(0, end + 64, 64):
        factor, times = K1, 1
        if at == end:
            factor, times, at = K1 + ((z & 0xFF) << 1), 9, len(text) - 64
            w = w[0] + ((len(text) - 1) & 63), w[1]
            v = v[0] + w[0], v[1]
            w = w[0] + v[0], w[1]
        x = _right(x + y + v[0] + _word(text, at + 8), 37) * factor
        y = _right(y + v[1] + _word(text, at + 48), 42) * factor
        x = (x ^ w[1] * times) & MASK
        y = (y + v[0] * times + _word(text, at + 40)) & MASK
        z = _right(z + w[0], 33) * factor & MASK
        v = _weak(text, at, v[1] * factor, x + w[0])
        w = _weak(text, at + 32, z + w[1], y + _word(text, at + 16))
        x, z = z, x
    first = _of_two(v[0], w[0], factor) + _mixed(y) * K0 + z
    return _of_two(first & MASK, _of_two(v[1], w[1], factor) + x & MASK, factor)


def sip(text: bytes, key: Pair) -> int:
    """Return the SipHash-2-4 of a text."""
    v = [word ^ key[i % 2] & MASK for i, word in enumerate(SIP)]
    whole = len(text) // 8 * 8
    last = _word(text, whole) | (len(text) & 0xFF) << 56
    for word in [*(_word(text, at) for at in range(0, whole, 8)), last]:
        v[3] ^= word
        v = _rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xFF
    v = _rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _rounds(v: list[int], count: int) -> list[int]:
    a, b, c, d = v
    for _ in range(count):
        a, c = (a + b) & MASK, (c + d) & MASK
        b, d = _right(b, 51) ^ a, _right(d, 48) ^ c
        a, c = (_right(a, 32) + d) & MASK, (c + b) & MASK
        b, d = _right(b, 47) ^ c, _right(d, 43) ^ a
        c = _right(c, 32)
    return [a, b, c, d]
