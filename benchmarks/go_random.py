"""Generates the random numbers of Go's math/rand for a seed.

Upstream's benchmark draws its pods with them. Prices are comparable to a dollar only with the very same pods, because
with others the bound alone differs by a few percent.

The generator adds two of the last 607 numbers, modulo 2**64. Seeding mixes in the state that the same recurrence
reaches after 7.8e12 steps from a start of its own. This module takes those steps at once, by raising x to that power
modulo the recurrence's polynomial x**607 - x**334 - 1.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_LENGTH = 607
_FEED = 334
_STEPS = 7_800_000_000_000
_PRIME = 2**31 - 1
_MASK = 2**64 - 1
Words = npt.NDArray[np.uint64]


class GoRandom:
    """A source like ``rand.New(rand.NewSource(seed))``."""

    def __init__(self, seed: int) -> None:
        """Seed the source. The seed must not be a multiple of 2**31 - 1."""
        started = _start(seed, 40, 20)
        mixed = started ^ _after_many_steps()
        self._last = [int(word) for word in _in_order(mixed)]
        self._next = 0

    def below(self, limit: int) -> int:
        """Return the result of ``Intn(limit)``, for a limit below 2**31 that is not a power of two."""
        unbiased = 2**31 - 1 - 2**31 % limit
        while True:
            number = (self._word() & (2**63 - 1)) >> 32
            if number <= unbiased:
                return number % limit

    def choose(self, values: Sequence[str]) -> str:
        """Return one of the values."""
        return values[self.below(len(values))]

    def _word(self) -> int:
        last, position = self._last, self._next
        word = last[position] = (last[position] + last[(position + _FEED) % _LENGTH]) & _MASK
        self._next = (position + 1) % _LENGTH
        return word


def _start(seed: int, high: int, middle: int) -> Words:
    """Return the first 607 words, drawn from a small generator of 31 bits.

    The shifts place its numbers in each word.
    """
    small = seed % _PRIME
    numbers = []
    for _ in range(20 + 3 * _LENGTH):
        small = 48271 * small % _PRIME
        numbers.append(small)
    drawn = np.array(numbers[20:], dtype=np.uint64).reshape(_LENGTH, 3)
    return drawn[:, 0] << np.uint64(high) ^ drawn[:, 1] << np.uint64(middle) ^ drawn[:, 2]


def _in_order(vector: Words) -> Words:
    """Return the words of a vector in the order of use: downwards, starting below the feed."""
    return np.roll(vector[::-1], _FEED - _LENGTH)


@functools.cache
def _after_many_steps() -> Words:
    """Return the vector of the generator seeded with 1, after all the steps."""
    words = [int(word) for word in _in_order(_start(1, 20, 10))]
    for position in range(_LENGTH - 1):
        words.append((words[position] + words[position + _FEED]) & _MASK)
    windows = np.lib.stride_tricks.sliding_window_view(np.array(words, dtype=np.uint64), _LENGTH)
    ahead = (windows * _power(_STEPS)).sum(axis=1, dtype=np.uint64)
    vector = np.empty(_LENGTH, dtype=np.uint64)
    for offset, word in enumerate(ahead):
        vector[(_FEED - 1 - _STEPS - offset) % _LENGTH] = word
    return vector


def _power(exponent: int) -> Words:
    """Return the coefficients of x to a power, modulo the polynomial and 2**64."""
    power = np.zeros(_LENGTH, dtype=np.uint64)
    power[0] = 1
    for bit in bin(exponent)[2:]:
        power = _reduced(np.convolve(power, power))
        if bit == "1":
            power = _reduced(np.concatenate(([np.uint64(0)], power)))
    return power


def _reduced(product: Words) -> Words:
    """Return the remainder modulo the polynomial: each power from 607 up becomes two lower ones."""
    while len(product) > _LENGTH:
        high = product[_LENGTH:]
        lower = np.zeros(max(_LENGTH, _FEED + len(high)), dtype=np.uint64)
        lower[:_LENGTH] = product[:_LENGTH]
        lower[: len(high)] += high
        lower[_FEED : _FEED + len(high)] += high
        product = lower
    return product
