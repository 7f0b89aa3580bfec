"""Batches of notes from many requests: in order, in turns, each note once."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmcells.errors import InputError
from lmcells.service.jobs import BATCH_COST, BATCH_NOTES, TURN_NOTES, Job, Lane
from lmcells.service.messages import ManyNotes, NoteMessage, OneNote


def job(n_notes: int, *, length: int = 1) -> Job:
    """A request of so many notes, of so many characters each, for whose answer nobody waits."""
    return Job(ManyNotes(notes=tuple(NoteMessage(text="x" * length) for _ in range(n_notes))))


def filled(*jobs: Job) -> Lane:
    queue = Lane()
    for each in jobs:
        queue.put(each)
    return queue


def test_small_requests_go_through_whole_and_in_order() -> None:
    first, second = job(3), job(2)
    batch = filled(first, second).take()
    assert batch == [(first, 0), (first, 1), (first, 2), (second, 0), (second, 1)]


def test_a_large_request_lets_others_pass() -> None:
    large, small = job(10 * BATCH_NOTES), job(1)
    batch = filled(large, small).take()
    assert batch is not None
    assert batch[TURN_NOTES] == (small, 0)
    assert [index for each, index in batch if each is large] == list(range(BATCH_NOTES - 1))


def test_a_batch_is_bounded_in_notes_and_characters() -> None:
    assert len(filled(job(10 * BATCH_NOTES)).take() or ()) == BATCH_NOTES
    long = filled(job(4, length=BATCH_COST))
    assert [len(long.take() or ()) for _ in range(4)] == [1, 1, 1, 1]


def test_explanations_make_a_note_dearer() -> None:
    text = "x" * 1_000
    plain, one, every = (Job(OneNote(text=text, explain=explain)).cost(0) for explain in (False, (3,), True))
    assert plain < one < every


def test_answers_can_be_handed_out_one_by_one_in_order() -> None:
    given: list[bytes] = []
    several = Job(
        ManyNotes(notes=tuple(NoteMessage(text="", id=name) for name in "abc")), deliver=given.append
    )
    several.answer(2, b"third")
    assert given == []
    several.answer(0, b"first")
    assert given == [b"first"]
    several.fail(InputError("sections: wrong."), 1)
    assert given == [b"first", b'{"id":"b","detail":"sections: wrong."}', b"third"]
    assert several.answered.result(0) == b""


def test_a_request_that_was_given_up_is_not_worked_on() -> None:
    left, stays = job(5), job(1)
    queue = filled(left, stays)
    left.answered.cancel()
    assert queue.n_waiting == 1
    assert queue.take() == [(stays, 0)]


def test_a_closed_queue_hands_out_what_it_has_and_takes_no_more() -> None:
    queue = filled(job(1))
    queue.close()
    assert len(queue.take() or ()) == 1
    assert queue.take() is None
    with pytest.raises(RuntimeError):
        queue.put(job(1))


def test_taking_waits_for_a_request() -> None:
    queue = Lane()
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(queue.take)
        queue.put(job(1))
        assert len(taken.result(10) or ()) == 1


@given(st.lists(st.integers(1, 200), max_size=12))
def test_every_note_is_handed_out_once(sizes: list[int]) -> None:
    jobs = [job(size) for size in sizes]
    queue = filled(*jobs)
    assert queue.n_waiting == sum(sizes)
    queue.close()
    taken = []
    while (batch := queue.take()) is not None:
        taken += batch
    assert len(taken) == len(set(taken)) == sum(sizes)
    for each in jobs:
        assert [index for other, index in taken if other is each] == list(range(len(each.notes)))
    assert queue.n_waiting == 0
