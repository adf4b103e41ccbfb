"""Recognise rows that weights were fitted on, whatever their order, by a hash of each.

A row is what all members say of a sample, with its label. Probabilities count to three digits,
because a network's last digits depend on the batch that a sample lies in. Different samples can
give equal rows (trees give few values, votes still fewer), but then the rows of one split have
twins among themselves too. So chance is measured, not guessed: other samples meet a twin in the
split about as often as the split's own rows do.
"""

import numpy as np

FORGIVEN = 0.01  # data sets repeat a sample now and then; so few rows hardly flatter anybody


class SeenRows:
    """The rows `(samples,)` of a split, as hashes: enough to know them again, not to read them."""

    def __init__(self, probabilities, labels):
        self._hashes = _hashes(probabilities, labels)

    def __len__(self):
        return len(self._hashes)

    def __repr__(self):
        return f"SeenRows({len(self)})"

    def __eq__(self, other):
        return isinstance(other, SeenRows) and np.array_equal(self._hashes, other._hashes)

    __hash__ = None  # type: ignore[assignment]

    def shared(self, others):
        """Return how many rows the two have in common, each counted as often as both have it."""
        values, counts = np.unique(self._hashes, return_counts=True)
        theirs, their_counts = np.unique(others._hashes, return_counts=True)
        _, here, there = np.intersect1d(values, theirs, return_indices=True)
        return int(np.minimum(counts[here], their_counts[there]).sum())

    def explained(self, others):
        """Return how many rows of `others` chance and the repeats of data sets may explain.

        Four standard deviations above the rate of twins among these rows, and, because no rate is
        known better than that from few rows, at least three rows in as many as there are.
        """
        counts = np.unique(self._hashes, return_counts=True)[1]
        rate = counts[counts > 1].sum() / len(self)
        deviation = np.sqrt(rate * (1 - rate) * (1 / len(self) + 1 / len(others)))
        share = rate + 4 * deviation + 3 / len(self) + FORGIVEN
        return int(min(share, 1.0) * len(others))

    def overlap(self, others):
        """Return the number of rows in common if it is more than chance explains, else 0."""
        shared = self.shared(others)
        if self == others or shared > self.explained(others):
            return shared
        all_distinct = len(np.unique(self._hashes)) == len(self)
        return shared if all_distinct and shared == len(self) == len(others) else 0


def _hashes(probabilities, labels):
    """A 64-bit sum for each row: random odd multiples of its label and of what each member says."""
    rng = np.random.default_rng(0)
    hashes = np.asarray(labels).astype(np.uint64) * _odd(rng, 1)
    for array in probabilities:
        # Rounded to 10 of the 23 bits behind the leading one.
        bits = (array.astype(np.float32).view(np.uint32) + np.uint32(1 << 12)) >> np.uint32(13)
        hashes += (bits.astype(np.uint64) * _odd(rng, array.shape[1])).sum(axis=1)
    return hashes


def _odd(rng, count):
    return rng.integers(0, 1 << 63, count, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
