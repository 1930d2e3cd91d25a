"""The data, its parts and the model: softmax regression on 8x8 images of digits."""

from importlib.metadata import distribution
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

TEST_EXAMPLES = 450
COMMON_EXAMPLES = 60  # dealt to all nodes alike, so that each has seen most digits


class Examples(NamedTuple):
    """Images, one row of 64 pixels in -1..1 each, and the digit on each."""

    images: NDArray[np.float64]
    digits: NDArray[np.int64]

    def take(self, rows: NDArray[np.int64]) -> "Examples":
        return Examples(self.images[rows], self.digits[rows])


class Model(NamedTuple):
    """What is trained, and what nodes and server send each other."""

    weights: NDArray[np.float64]
    bias: NDArray[np.float64]

    def scores(self, images: NDArray[np.float64]) -> NDArray[np.float64]:
        return images @ self.weights + self.bias


def untrained() -> Model:
    return Model(np.zeros((64, 10)), np.zeros(10))


def load() -> tuple[Examples, Examples]:
    """The training and the test examples of scikit-learn's digits, always in the same order."""
    # From the file: importing scikit-learn takes a second, and Flower starts a process per message.
    file = distribution("scikit-learn").locate_file("sklearn/datasets/data/digits.csv.gz")
    table = np.random.default_rng(seed=0).permutation(np.loadtxt(str(file), delimiter=","))
    examples = Examples(table[:, :64] / 8 - 1, table[:, 64].astype(np.int64))
    rows = np.arange(len(table))
    return examples.take(rows[TEST_EXAMPLES:]), examples.take(rows[:TEST_EXAMPLES])


def part_of(examples: Examples, part: int, parts: int) -> Examples:
    """One node's examples: a slice of them sorted by digit, and a few of every digit."""
    common, rest = np.split(np.arange(len(examples.digits)), [COMMON_EXAMPLES])
    by_digit = rest[np.argsort(examples.digits[rest], kind="stable")]
    own = [np.array_split(rows, parts)[part] for rows in (common, by_digit)]
    return examples.take(np.concatenate(own))


def train(model: Model, examples: Examples, *, epochs: int, rate: float, seed: int) -> Model:
    """Gradient descent on the cross-entropy, in batches of 16."""
    rng = np.random.default_rng(seed)
    weights, bias = (array.copy() for array in model)
    for _ in range(epochs):
        order = rng.permutation(len(examples.digits))
        for start in range(0, len(order), 16):
            images, digits = examples.take(order[start : start + 16])
            scores = Model(weights, bias).scores(images)
            odds = np.exp(scores - scores.max(axis=1, keepdims=True))
            error = odds / odds.sum(axis=1, keepdims=True) - np.eye(10)[digits]
            weights -= rate * images.T @ error / len(digits)
            bias -= rate * error.mean(axis=0)
    return Model(weights, bias)


def accuracy(model: Model, examples: Examples) -> float:
    return float(np.mean(model.scores(examples.images).argmax(axis=1) == examples.digits))
