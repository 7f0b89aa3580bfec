"""Questions about the model wait for each other, never for long in a row, and notes do not wait for them."""

import asyncio
import threading

import pytest
from starlette.exceptions import HTTPException

from lmcells.service.explore import ExploringThread


def test_questions_are_answered_one_by_one_by_another_thread() -> None:
    at_once: list[int] = []
    running = 0

    def ask() -> int:
        nonlocal running
        running += 1
        at_once.append(running)
        running -= 1
        return threading.get_ident()

    async def main() -> list[int]:
        in_thread = ExploringThread()
        return await asyncio.gather(*(in_thread(ask) for _ in range(10)))

    threads = set(asyncio.run(main()))
    assert set(at_once) == {1}
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_the_event_loop_goes_on_meanwhile() -> None:
    answered = threading.Event()

    async def main() -> bool:
        asked = asyncio.create_task(ExploringThread()(lambda: answered.wait(10)))
        await asyncio.sleep(0)
        answered.set()  # by the event loop: were it held up, nobody would
        return await asked

    assert asyncio.run(main())


def test_too_many_questions_are_refused_and_later_ones_answered() -> None:
    go_on = threading.Event()

    async def main() -> tuple[HTTPException, int]:
        in_thread = ExploringThread(most_waiting=2)
        waiting = [asyncio.create_task(in_thread(lambda: go_on.wait(10))) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(HTTPException) as refused:
            await in_thread(lambda: 1)
        go_on.set()
        assert all(await asyncio.gather(*waiting))
        return refused.value, await in_thread(lambda: 2)

    refused, later = asyncio.run(main())
    assert (refused.status_code, refused.headers) == (429, {"Retry-After": "1"})
    assert later == 2


def test_an_error_is_the_askers() -> None:
    def broken() -> None:
        raise ValueError

    async def main() -> int:
        in_thread = ExploringThread(most_waiting=1)
        with pytest.raises(ValueError):  # noqa: PT011 - its kind is all there is
            await in_thread(broken)
        return await in_thread(lambda: 1)

    assert asyncio.run(main()) == 1
