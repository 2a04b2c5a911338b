"""The rules of proofs: naive proofs of small claims hold, and what breaks the argument is rejected."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest

from tests.support.naive_proofs import double, naive_proof, number, signed
from treeproof.check.claims import NO_SCORES, Grid, Place, Region
from treeproof.check.model_file import Model
from treeproof.check.proof_bytes import Reader
from treeproof.check.rules import CLOSED, DROP, SPEND, WEIGH, Box, Claim, Leaf, Rejected, check_tree


def small_model(rng: random.Random, n_features: int = 3, n_classes: int = 2) -> Model:
    """A model of a few random trees."""
    decision = rng.choice(["argmax", "cut"]) if n_classes == 2 else rng.choice(["argmax", "softmax"])
    n_scores = 1 if decision == "cut" else n_classes
    whole, precision = rng.random() < 0.5, rng.choice(["float64", "float32"])
    numbers = [float(np.dtype(precision).type(number)) for number in (0.1, -0.3, 0.7, 1e-17, -0.1)]

    def tree() -> dict[str, object]:
        fields: dict[str, list[object]] = {name: [] for name in ("feature", "threshold", "left", "right", "nan_left")}
        scores: list[list[float]] = []
        more: list[object] = []

        def grow(depth: int) -> int:
            here = len(fields["feature"])
            for name, value in zip(fields, (-1, 0.0, -1, -1, False), strict=True):
                fields[name].append(value)
            if depth == 0 or rng.random() < 0.2:
                scores.append([rng.randint(-3, 3) if whole else rng.choice(numbers) for _ in range(n_scores)])
                return here
            fields["feature"][here], fields["threshold"][here] = rng.randrange(n_features), float(rng.randint(0, 4))
            fields["nan_left"][here] = rng.random() < 0.5
            if rng.random() < 0.2:
                more.append([here, [fields["threshold"][here] + 1.0]])
            fields["left"][here] = grow(depth - 1)
            fields["right"][here] = grow(depth - 1)
            return here

        grow(3)
        # Leaves are listed in the order of their nodes.
        leaves = [i for i, f in enumerate(fields["feature"]) if f == -1]
        assert len(leaves) == len(scores)
        return {**fields, "scores": scores, **({"more": more} if more else {})}

    return Model.of(
        {
            "format": "treeproof-ensemble",
            "columns": [{}] * n_features,
            "classes": list(range(n_classes)),
            "rule": {
                "decision": decision,
                "precision": precision,
                "divisor": rng.choice([1.0, 3.0]),
                "base_last": False,
                "cut": 0.0,
                "steepness": 1.0,
            },
            "base": [0.0] * n_scores,
            "trees": [tree() for _ in range(4)],
        }
    )


def small_region(rng: random.Random, grid: Grid) -> Region:
    """Prices of all cells, and a budget."""
    prices = []
    for cuts in grid.cuts:
        by_price: dict[Fraction, int] = {}
        for cell in range(len(cuts) + 1):
            if rng.random() < 0.85 or cell == 0:
                price = (
                    Fraction(0) if cell == 0 else rng.choice([Fraction(0), Fraction(1), Fraction(2), Fraction(1, 3)])
                )
                by_price[price] = by_price.get(price, 0) | 1 << cell
        prices.append(sorted(by_price.items()))
    return Region(prices, [(Fraction(rng.randint(0, 4)), frozenset(range(len(prices))))])


def rows_of(grid: Grid, region: Region) -> list[tuple[Sequence[float], Fraction]]:
    """A row for each choice of cells, and its price."""
    columns = []
    for cuts, prices in zip(grid.cuts, region.prices, strict=True):
        values = [*cuts, (cuts[-1] if cuts else 0.0) + 1.0]
        columns.append(
            [(values[cell], price) for price, mask in prices for cell in range(len(values)) if mask >> cell & 1]
        )
    return [
        ([value for value, _ in row], sum((price for _, price in row), Fraction(0)))
        for row in itertools.product(*columns)
    ]


def broken(grid: Grid, region: Region, label: int, other: int) -> bool:
    """Whether some row that can be paid for has the other label."""
    budget = region.purses[0][0]
    return any(price <= budget and grid.model.label(row) == other for row, price in rows_of(grid, region))


def one_each(_: random.Random, grid: Grid) -> Region:
    """Everything but the lowest cells costs 1, and there is no more to spend."""
    prices = [[(Fraction(0), 1), (Fraction(1), (2 << len(cuts)) - 2)] for cuts in grid.cuts]
    return Region(prices, [(Fraction(1), frozenset(range(len(prices))))])


def claims(
    seed: int, n: int, n_features: int = 3, region_of: Callable[[random.Random, Grid], Region] = small_region
) -> list[tuple[Claim, bool]]:
    """Claims about small models, and whether they are false."""
    rng = random.Random(seed)
    found = []
    for _ in range(n):
        grid = Grid(small_model(rng, n_features, rng.choice([2, 3])), {})
        region = region_of(rng, grid)
        label = rng.randrange(grid.model.n_classes)
        wanted = frozenset(set(range(grid.model.n_classes)) - {label})
        found += [
            (Place(grid, region).claim(label, other, wanted), broken(grid, region, label, other))
            for other in sorted(wanted)
        ]
    return found


def test_what_leaves_cost_is_kept_up_to_date_as_boxes_shrink() -> None:
    rng, dropped = random.Random(11), 0
    for claim, _ in claims(11, 60):
        box = Box(claim)
        for _ in range(4):
            f = rng.randrange(len(box.cells))
            twin = box.copy()
            twin.keep(f, rng.getrandbits(max(box.cells[f].bit_length(), 1)))
            if twin.is_empty:
                continue
            box = twin
            for purse, costs in zip(claim.tight, box.costs, strict=True):
                left = purse.budget - sum(claim.least(g, cells) or 0 for g, cells in enumerate(box.cells))
                for leaves, own, every in zip(box.trees, costs, claim.trees, strict=True):
                    assert own == [cost_of(box, leaf) for leaf in leaves] and max(own) <= left
                    gone = [leaf for leaf in every if leaf not in leaves]
                    # What was left out has no cell here, or costs too much.
                    assert all(not meets(box, leaf) or cost_of(box, leaf) > left for leaf in gone)
                    dropped += any(meets(box, leaf) for leaf in gone)
    assert dropped > 100


def meets(box: Box, leaf: Leaf) -> bool:
    return all(mask & box.cells[f] for f, mask in leaf.cells.items())


def cost_of(box: Box, leaf: Leaf) -> int:
    """What a leaf costs on top of a box, from the definition."""
    least = box.claim.least
    return sum(least(f, mask & box.cells[f]) - least(f, box.cells[f]) for f, mask in leaf.cells.items())  # type: ignore[operator]


def test_the_least_of_many_prices_is_found() -> None:
    rng = random.Random(3)
    cells = rng.sample(range(700), 700)
    prices = [(price, 1 << cell) for price, cell in enumerate(cells[:600])]
    claim = Claim([], [2**700 - 1], [prices], [], 0, 0, 1, Fraction(1), lambda _: False, lambda _: False)
    for n in (0, 1, 2, 5, 50):
        for _ in range(50):
            mask = sum(1 << cell for cell in rng.sample(range(700), n))
            assert claim.least(0, mask) == min((price for price, one in prices if one & mask), default=None)


def test_conditions_of_valid_rows_are_never_left_out_as_too_dear() -> None:
    """Their leaves all have the same lead and no scores: only what they cost tells them apart."""
    rng = random.Random(4)
    grid = Grid(small_model(rng), {})
    chain = [Leaf(0, NO_SCORES, {0: 1}), Leaf(0, NO_SCORES, {0: 2}), Leaf(0, NO_SCORES, {0: 4})]
    assert len(grid.cuts[0]) >= 2
    prices = [[(Fraction(0), 1), (Fraction(1), 2), (Fraction(3), 4)], *[[(Fraction(0), 1)]] * 2]
    region = Region(prices, [(Fraction(2), frozenset(range(3)))])
    claim = Place(grid, region, [chain]).claim(0, 1, frozenset({1}))
    assert list(claim.trees[-1]) == chain and Box(claim).trees[-1] == chain[:2]


@pytest.mark.slow
def test_naive_proofs_hold_exactly_where_brute_force_finds_nothing() -> None:
    proved = refuted = 0
    for claim, is_false in claims(1, 250):
        proof = naive_proof(claim)
        if is_false:
            assert proof is None
            refuted += 1
        elif proof is not None:
            reader = Reader(proof)
            assert check_tree(claim, reader) > 0
            assert reader.is_done
            proved += 1
    assert proved > 30 and refuted > 60


@pytest.mark.slow
def test_mutations_never_prove_what_is_false() -> None:
    """A proof for one claim, changed or not, is no proof of a false claim."""
    rng = random.Random(5)
    made = claims(2, 150)
    proofs = [proof for claim, is_false in made if not is_false and (proof := naive_proof(claim)) is not None]
    tried = 0
    for claim, is_false in made:
        if not is_false:
            continue
        for _ in range(20):
            data = bytearray(rng.choice(proofs))
            for _ in range(rng.randint(0, 3)):
                data[rng.randrange(len(data))] = rng.randrange(12)
            with pytest.raises(Rejected):
                check_tree(claim, Reader(bytes(data)))
            tried += 1
    assert tried > 800


def test_a_proof_that_ends_early_is_rejected() -> None:
    claim = next(claim for claim, is_false in claims(3, 50) if not is_false and len(naive_proof(claim) or b"") > 3)
    proof = naive_proof(claim)
    assert proof is not None
    with pytest.raises(Rejected, match="ends"):
        check_tree(claim, Reader(proof[:-1]))
    with pytest.raises(Rejected, match="no step 99"):
        check_tree(claim, Reader(number(99)))


def random_weights(rng: random.Random, claim: Claim, spread: int) -> bytes:
    """Weights as bytes, about the columns and trees of a claim."""
    out = (
        signed(rng.choice([0, 3, -2, 40]))
        + double(rng.choice([0.0, 0.0, 0.5, 1.0, 3.0, 7.25]))
        + number(rng.randint(0, 3))
    )
    columns = sorted(rng.sample(range(len(claim.region)), rng.randint(1, len(claim.region))))
    out += number(len(columns))
    last = -1
    for f in columns:
        n_cells = claim.region[f].bit_length()
        cuts = sorted(rng.sample(range(max(n_cells - 1, 0)), rng.randint(0, max(n_cells - 1, 0))))
        out += number(f - last - 1) + rising(cuts) + running(rng, len(cuts) + 1, spread)
        trees = sorted(rng.sample(range(len(claim.trees)), rng.randint(0, len(claim.trees))))
        out += number(len(trees))
        before = -1
        for t in trees:
            ends = sorted(rng.sample(range(len(cuts)), rng.randint(0, len(cuts))))
            out += number(t - before - 1) + rising(ends) + running(rng, len(ends) + 1, spread)
            before = t
        last = f
    return out


def rising(numbers: list[int]) -> bytes:
    """How many there are, and each by what it is more than one above the last."""
    steps = [b - a - 1 for a, b in itertools.pairwise([-1, *numbers])]
    return number(len(numbers)) + b"".join(map(number, steps))


def running(rng: random.Random, n: int, spread: int) -> bytes:
    """Random numbers, each by what it is more than the last."""
    return b"".join(signed(rng.randint(-spread, spread)) for _ in range(n))


@pytest.mark.slow
def test_no_weights_prove_what_is_false() -> None:
    rng = random.Random(8)
    tried = helped = 0
    for claim, is_false in claims(4, 100):
        for _ in range(12):
            spread = rng.choice([0, 1, 4, 2**50])
            proof = (
                number(rng.choice([WEIGH, DROP])) + random_weights(rng, claim, spread) + (naive_proof(claim) or b"\0")
            )
            if is_false:
                with pytest.raises(Rejected):
                    check_tree(claim, Reader(proof))
                tried += 1
            elif naive_proof(claim) is not None:
                helped += _holds(claim, proof)
    assert tried > 500
    assert helped > 20


@pytest.mark.slow
def test_no_rate_proves_what_is_false_by_spending() -> None:
    rng = random.Random(9)
    tried = helped = 0
    for claim, is_false in claims(6, 150, 4, one_each):
        for rate in (0.0, 0.25, 1.0, 2.0, rng.random() * 2.0**60):
            proof = number(SPEND) + double(rate)
            assert not (is_false and _holds(claim, proof))
            tried += is_false
            helped += _holds(claim, proof) and not _holds(claim, number(CLOSED))
    assert tried > 200
    assert helped > 1


def _holds(claim: Claim, proof: bytes) -> bool:
    try:
        check_tree(claim, Reader(proof))
    except Rejected:
        return False
    return True
