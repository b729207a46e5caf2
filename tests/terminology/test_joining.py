"""The union-find of `terminology merge`: never two of one source, whatever the order of the claims."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.terminology import merge as joining
from alphita.terminology.merge import Claim, Joined

PAIRS = st.tuples(st.integers(0, 11), st.integers(0, 11))


@dataclass(frozen=True)
class Random:
    sources: list[str]
    claims: list[Claim]
    vetoes: list[tuple[int, int]]


@st.composite
def cases(draw: st.DrawFn) -> Random:
    sources = draw(st.lists(st.sampled_from("ABCD"), min_size=12, max_size=12))
    pairs = draw(st.lists(st.tuples(PAIRS, st.integers(0, 2)), max_size=25))
    claims = [Claim(*pair, level, (min(pair), max(pair), level)) for pair, level in pairs]
    return Random(sources, claims, draw(st.lists(PAIRS, max_size=3)))


def run(case: Random) -> Joined:
    return joining.join(case.sources, case.claims, case.vetoes)


def ends(claim: Claim) -> set[int]:
    return {claim.first, claim.second}


@settings(max_examples=300, deadline=None)
@given(cases())
def test_what_holds_of_every_joining(case):
    found = run(case)
    components: dict[int, list[int]] = {}
    for concept, root in enumerate(found.root.tolist()):
        components.setdefault(root, []).append(concept)
    for root, members in components.items():
        assert root == min(members)
        sources = [case.sources[concept] for concept in members]
        assert len(sources) == len(set(sources))
        assert not any(first in members and second in members and first != second for first, second in case.vetoes)
    # The claims used join exactly what was joined, with none too many.
    assert sum(len(members) - 1 for members in components.values()) <= len(found.used)
    assert all(found.root[claim.first] == found.root[claim.second] for claim in found.used)
    reached = naive_roots(len(case.sources), found.used)
    assert reached == found.root.tolist()
    refused = [frozenset(ends(refusal.claim)) for refusal in found.refused]
    for claim in case.claims:
        same = found.root[claim.first] == found.root[claim.second]
        assert same or frozenset(ends(claim)) in refused, "a claim is followed, or refused and listed"


@settings(max_examples=300, deadline=None)
@given(cases())
def test_every_refusal_has_its_reason_and_a_chain_of_given_claims(case):
    vetoes = [set(pair) for pair in case.vetoes]
    for refusal in run(case).refused:
        start, end = refusal.kept_apart
        assert start != end
        assert case.sources[start] == case.sources[end] or (refusal.kind == joining.VETOED and {start, end} in vetoes)
        assert refusal.claim in refusal.chain
        assert all(claim in case.claims for claim in refusal.chain)
        at = start
        for claim in refusal.chain:
            assert at in ends(claim)
            at = claim.second if claim.first == at else claim.first
        assert at == end


@settings(max_examples=200, deadline=None)
@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_the_claims_does_not_matter(case, random):
    wanted = run(case)
    shuffled = [claim if random.random() < 0.5 else turned(claim) for claim in case.claims]
    random.shuffle(shuffled)
    found = run(Random(case.sources, shuffled, case.vetoes[::-1]))
    assert found.root.tolist() == wanted.root.tolist()
    assert [(r.kind, ends(r.claim)) for r in found.refused] == [(r.kind, ends(r.claim)) for r in wanted.refused]
    assert [ends(claim) for claim in found.used] == [ends(claim) for claim in wanted.used]


def turned(claim: Claim) -> Claim:
    return Claim(claim.second, claim.first, claim.level, claim.order)


def naive_roots(n: int, claims: list[Claim]) -> list[int]:
    root = list(range(n))
    for _ in range(n):
        for claim in claims:
            smaller = min(root[claim.first], root[claim.second])
            root[claim.first] = root[claim.second] = smaller
    return root


def test_two_claims_of_one_strength_are_both_refused():
    found = joining.join("ABB", [Claim(0, 1, 0, (0,)), Claim(0, 2, 0, (1,))])
    assert found.root.tolist() == [0, 1, 2]
    assert [refusal.kind for refusal in found.refused] == [joining.CONTESTED] * 2


def test_the_stronger_of_two_claims_wins():
    found = joining.join("ABB", [Claim(0, 1, 1, (0,)), Claim(0, 2, 0, (1,))])
    assert found.root.tolist() == [0, 1, 0]
    [refusal] = found.refused
    assert (refusal.kind, refusal.kept_apart) == (joining.TAKEN, (2, 1))
    assert [ends(claim) for claim in refusal.chain] == [{0, 2}, {0, 1}]


def test_a_chain_that_ends_at_the_same_source_is_cut_at_its_last_claim():
    # A0 = B1 = C2 = A3: no two claims compete for one concept, and yet not all of them can hold.
    claims = [Claim(0, 1, 0, (0,)), Claim(1, 2, 0, (1,)), Claim(2, 3, 0, (2,))]
    found = joining.join("ABCA", claims)
    assert found.root.tolist() == [0, 0, 0, 3]
    [refusal] = found.refused
    assert (refusal.kind, refusal.claim, refusal.kept_apart) == (joining.CHAIN, claims[2], (0, 3))
    assert refusal.chain == tuple(claims)


def test_a_veto_holds_over_chains():
    claims = [Claim(0, 1, 0, (0,)), Claim(1, 2, 0, (1,))]
    found = joining.join("ABC", claims, [(2, 0)])
    assert found.root.tolist() == [0, 0, 2]
    assert [refusal.kind for refusal in found.refused] == [joining.VETOED]
