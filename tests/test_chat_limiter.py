"""How many requests go at a time. Oracle: additive increase, multiplicative decrease, by hand."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcb_bench.models.chat_limiter import FIRST, FIRST_PAUSE_S, LONGEST_PAUSE_S, Limiter


def within(test, **options):
    """Runs ``test(limiter)`` in an event loop."""

    async def run():
        return await test(Limiter(options.pop("most", 32), **options))

    return asyncio.run(run())


def test_it_begins_small_and_doubles_a_round_up_to_the_most():
    async def widths(limiter):
        found = [limiter.width]
        for _ in range(5):
            for _ in range(int(limiter.width)):  # a round: each of those on the way comes back
                limiter.succeeded()
            found.append(limiter.width)
        return found

    assert within(widths) == [4, 8, 16, 32, 32, 32]
    assert within(widths, most=10) == [4, 8, 10, 10, 10, 10]
    assert within(widths, most=1) == [1] * 6
    assert FIRST == 4


def test_a_429_halves_it_once_for_all_that_were_on_the_way_and_it_grows_by_one_a_round():
    async def widths(limiter):
        limiter.width = 16.0
        begun = [await limiter.enter() for _ in range(8)]
        await asyncio.sleep(0.01)
        for one in begun:
            limiter.slow_down(one, 0.0)
        found = [limiter.width]
        for _ in range(8):
            limiter.succeeded()
        found.append(limiter.width)
        await asyncio.sleep(0.01)
        limiter.slow_down(limiter.now(), 0.0)  # one that started after the cut
        return [*found, limiter.width]

    first, grown, second = within(widths)
    assert first == 8 and 8.9 < grown <= 9 and second == pytest.approx(grown / 2)


def test_it_never_falls_below_one():
    async def width(limiter):
        for _ in range(10):
            await asyncio.sleep(0.001)
            limiter.slow_down(limiter.now(), 0.0)
        return limiter.width

    assert within(width) == 1.0


def test_pauses_are_those_asked_for_else_they_grow_with_jitter_up_to_a_minute():
    async def pauses(limiter):
        asked = limiter.slow_down(limiter.now(), 0.7)
        found = []
        for _ in range(12):
            await asyncio.sleep(0.001)
            found.append(limiter.slow_down(limiter.now(), None))
        limiter.succeeded()
        await asyncio.sleep(0.001)
        return asked, found, limiter.slow_down(limiter.now(), None)

    asked, found, after = within(pauses)
    assert asked == 0.7
    for i, pause in enumerate(found, start=2):  # the first cut was the one above
        longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**i)
        assert longest / 2 <= pause <= longest
    assert len(set(found)) == len(found) and after <= FIRST_PAUSE_S * 2


def test_the_gate_is_closed_for_all_while_it_was_asked_to_wait():
    async def waited(limiter):
        begun = await limiter.enter()
        limiter.leave()
        limiter.slow_down(begun, 0.2)
        entries = await asyncio.gather(*(limiter.enter() for _ in range(2)))
        return [entry - begun for entry in entries]

    assert all(0.2 <= wait < 0.8 for wait in within(waited))


def test_starts_are_spaced():
    async def starts(limiter):
        found = []
        for _ in range(5):
            found.append(await limiter.enter())
            limiter.leave()
        return found

    found = within(starts, per_minute=60 / 0.05)
    gaps = [b - a for a, b in zip(found, found[1:], strict=False)]
    assert all(gap >= 0.049 for gap in gaps) and sum(gaps) < 2


def test_once_it_is_over_nobody_waits_for_a_closed_gate():
    async def waited(limiter):
        begun = await limiter.enter()
        limiter.leave()
        limiter.slow_down(begun, 3600.0)
        return await asyncio.wait_for(limiter.enter(), 2) - begun

    assert within(waited, is_over=lambda: True) < 1


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from(["good", "bad", "slow"]), min_size=1, max_size=60), st.integers(1, 9)
)
def test_there_are_never_more_on_the_way_than_its_width_and_all_get_a_turn(outcomes, most):
    async def check(limiter):
        peak, done = 0, 0

        async def one(outcome):
            nonlocal peak, done
            begun = await limiter.enter()
            peak = max(peak, limiter.in_flight)
            assert limiter.in_flight <= most
            await asyncio.sleep(0)
            limiter.leave()
            if outcome == "bad":
                limiter.slow_down(begun, 0.0)
            elif outcome == "good":
                limiter.succeeded()
            done += 1

        await asyncio.wait_for(asyncio.gather(*map(one, outcomes)), 10)
        return peak, done, limiter.in_flight

    peak, done, left = within(check, most=most)
    assert (done, left) == (len(outcomes), 0) and peak <= most


def test_a_cancelled_waiter_gives_its_turn_to_the_next():
    async def check(limiter):
        await limiter.enter()
        waiting = [asyncio.create_task(limiter.enter()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        limiter.leave()
        await asyncio.wait_for(waiting[1], 2)
        waiting[2].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return limiter.in_flight

    assert within(check, most=1) == 1
