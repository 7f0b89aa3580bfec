"""Compare the service's speed over HTTP with the library's: 64 concurrent clients, 16 notes per request.

    python benchmarks/service_speed.py         # the shipped model, on notes of LMCELLS_DATA or of examples/
    python benchmarks/service_speed.py --model MODEL --seconds 4 --rounds 10
    python benchmarks/service_speed.py --hostile --before REVISION   # what one client can do to the others
    python benchmarks/service_speed.py --soak 600                    # errors and memory of ten minutes

Real processes: `lmcells serve` with one worker, a load generator (HTTP/1.1 over plain sockets, keep-alive), and the
library in a separate process (`Expander.pipe`). Both expand the same notes, in batches of the same size. They take
short turns while the others are stopped, so that changes in the machine's speed affect all alike. The library is
measured twice: alone, and beside a load generator whose server only waits and sends answers of the service's size at
the service's rate, so that the generator costs both the same. The result is the median of the rounds' ratios. Notes
per second of CPU time are printed as well: on a busy machine they are more stable.
"""

import os

for pool in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(pool, "1")  # one core each

import argparse
import asyncio
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from ctypes import c_double, c_long
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil

import hostile
from lmcells import Expander
from lmcells.service.jobs import BATCH_NOTES
from locations import notes_or_examples

REPOSITORY = Path(__file__).resolve().parents[1]
N_CLIENTS, NOTES_A_REQUEST = 64, 16
N_NOTES = 512
LOAD_SECONDS = 60
WARM_UP = 4.0
TARGET = 0.8
FLAT = 1.05  # of the memory, from near the beginning to the end

PROCESSES = get_context("spawn")


def read_texts() -> list[str]:
    """Whole notes: MTSamples where they are, else the invented ones."""
    notes = notes_or_examples("dev/mtsamples_raw.parquet")
    if notes.is_file():
        import pyarrow.parquet

        texts = pyarrow.parquet.read_table(notes, columns=["text"])["text"].to_pylist()
    else:
        texts = [path.read_text("utf-8") for path in sorted(notes.glob("*.txt"))]
    return list(islice(cycle(texts), N_NOTES))


class Counts:
    """What one process counts and others read; numbers only, one writer each."""

    def __init__(self) -> None:
        self.n_notes = PROCESSES.RawValue(c_long, 0)
        self.n_bytes = PROCESSES.RawValue(c_long, 0)  # of answers
        self.rate = PROCESSES.RawValue(c_double, 500.0)  # notes a second that the idle server is to answer

    @property
    def bytes_an_answer(self) -> int:
        return self.n_bytes.value * NOTES_A_REQUEST // max(1, self.n_notes.value)


def bodies_of(texts: Sequence[str]) -> list[bytes]:
    groups = [texts[first : first + NOTES_A_REQUEST] for first in range(0, len(texts), NOTES_A_REQUEST)]
    return [json.dumps({"notes": [{"text": text} for text in group]}).encode() for group in groups]


async def ask(port: int, bodies: Iterator[bytes], counts: Counts) -> None:
    """One client: it asks again as soon as it is answered."""
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
        # A server that was stopped for a while closes connections on which it heard nothing.
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await ask_once(reader, writer, next(bodies), counts)


async def ask_once(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes, counts: Counts
) -> None:
    writer.write(
        b"POST /v1/expand HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body) + body
    )
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " not in head[:20]:
        raise SystemExit(f"the service answered {head[:60]!r}")
    length = int(re.search(rb"content-length: (\d+)", head, re.I)[1])
    await reader.readexactly(length)
    counts.n_notes.value += NOTES_A_REQUEST
    counts.n_bytes.value += length


async def ask_all(port: int, texts: Sequence[str], counts: Counts) -> None:
    bodies = cycle(bodies_of(texts))
    await asyncio.gather(*(ask(port, bodies, counts) for _ in range(N_CLIENTS)))


def run_load(port: int, texts: Sequence[str], counts: Counts) -> None:
    """All clients, in a process of their own."""
    asyncio.run(ask_all(port, texts, counts))


def run_idle_load(texts: Sequence[str], counts: Counts, of_service: Counts) -> None:
    """The same load on a server that answers nothing but bytes, as many and as often as the service does."""

    async def run() -> None:
        waiting: asyncio.Queue[asyncio.Future[None]] = asyncio.Queue()

        async def answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(int(re.search(rb"Content-Length: (\d+)", head)[1]))
                turn = asyncio.get_running_loop().create_future()
                waiting.put_nowait(turn)
                await turn
                n_bytes = of_service.bytes_an_answer
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % n_bytes + b"x" * n_bytes)

        async def let_go() -> None:
            while True:
                await asyncio.sleep(NOTES_A_REQUEST / of_service.rate.value)
                (await waiting.get()).set_result(None)

        server = await asyncio.start_server(answer_all, "127.0.0.1", 0, limit=1 << 22)
        port = server.sockets[0].getsockname()[1]
        await asyncio.gather(let_go(), ask_all(port, texts, counts))

    asyncio.run(run())


def run_library(texts: Sequence[str], model: str | None, counts: Counts) -> None:
    """`Expander.pipe` without an end."""
    for _ in Expander.from_pretrained(model).pipe(cycle(texts), batch_size=BATCH_NOTES):
        counts.n_notes.value += 1


@contextmanager
def service(model: str | None) -> Iterator[tuple[int, int]]:
    """A server process; -> its id and its port."""
    command = [sys.executable, "-m", "lmcells", "serve", "--port", "0"]
    with subprocess.Popen(
        command + (["--model", model] if model else []), stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        found = re.search(r"http://[\d.]+:(\d+)", process.stderr.readline())
        if found is None:
            raise SystemExit(process.stderr.read())
        log = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
        try:
            yield process.pid, int(found[1])
        finally:
            process.kill()
            log.wait()


@contextmanager
def child(run: Callable[..., None], *arguments: Any) -> Iterator[int]:
    """A process that runs until it is no longer needed; -> its id."""
    process = PROCESSES.Process(target=run, args=arguments, daemon=True)
    process.start()
    assert process.pid is not None
    try:
        yield process.pid
    finally:
        process.kill()
        process.join()


class Contestant:
    """Processes that run in their turns only: one that works, and perhaps one beside it."""

    def __init__(self, pid: int, counts: Counts, *, beside: int | None = None) -> None:
        self._worker = psutil.Process(pid)
        self._processes = [self._worker, *([psutil.Process(beside)] if beside else [])]
        self._counts = counts

    def stop(self) -> None:
        for process in self._processes:
            process.suspend()

    def turn(self, seconds: float) -> dict[str, float]:
        """Run for a while; -> notes a second, by the clock and by the worker's processor time."""
        for process in self._processes:
            process.resume()
        begin, of_cpu, n_notes = time.perf_counter(), self._cpu_seconds(), self._counts.n_notes.value
        time.sleep(seconds)
        n_notes = self._counts.n_notes.value - n_notes
        of_cpu, seconds = self._cpu_seconds() - of_cpu, time.perf_counter() - begin
        self.stop()
        if not n_notes:
            raise SystemExit("no note was expanded in a turn. Give more --seconds.")
        return {"rate": n_notes / seconds, "rate_of_cpu": n_notes / of_cpu}

    def _cpu_seconds(self) -> float:
        times = self._worker.cpu_times()
        return float(times.user + times.system)


def wait_for_notes(*counts: Counts) -> None:
    """Return when all have loaded and begun."""
    deadline = time.perf_counter() + LOAD_SECONDS
    while not all(each.n_notes.value for each in counts):
        if time.perf_counter() > deadline:
            raise SystemExit(f"a process expanded no note within {LOAD_SECONDS} seconds.")
        time.sleep(0.1)


def measure(options: argparse.Namespace, texts: list[str]) -> dict[str, list[dict[str, float]]]:
    """All rounds of all contestants."""
    served, beside, library = Counts(), Counts(), Counts()
    with ExitStack() as running:
        pid, port = running.enter_context(service(options.model))
        load = running.enter_context(child(run_load, port, texts, served))
        idle = running.enter_context(child(run_idle_load, texts, beside, served))
        expands = running.enter_context(child(run_library, texts, options.model, library))
        contestants = {
            "service": Contestant(pid, served, beside=load),
            "library, load beside it": Contestant(expands, library, beside=idle),
            "library alone": Contestant(expands, library),
        }
        wait_for_notes(served, beside, library)
        for contestant in contestants.values():
            contestant.stop()
        served.rate.value = contestants["service"].turn(WARM_UP)["rate"]
        contestants["library, load beside it"].turn(WARM_UP)
        measured: dict[str, list[dict[str, float]]] = {name: [] for name in contestants}
        for _ in range(options.rounds):
            for name, contestant in contestants.items():
                measured[name].append(contestant.turn(options.seconds))
            served.rate.value = max(1.0, measured["service"][-1]["rate"])
    return measured


def soak(options: argparse.Namespace, texts: list[str]) -> bool:
    """Keep all clients busy for a while; -> whether none met an error and the memory stayed as it was."""
    served = Counts()
    with ExitStack() as running:
        pid, port = running.enter_context(service(options.model))
        load = psutil.Process(running.enter_context(child(run_load, port, texts, served)))
        wait_for_notes(served)
        begin, memory = time.perf_counter(), []
        while (
            seconds := time.perf_counter() - begin
        ) < options.soak and load.status() != psutil.STATUS_ZOMBIE:
            time.sleep(1)
            memory.append(psutil.Process(pid).memory_info().rss / 1e6)
        tenth = max(1, len(memory) // 10)
        first, last = (max(part) for part in (memory[tenth : 2 * tenth], memory[-tenth:]))
    is_whole = seconds >= options.soak
    said = "no error" if is_whole else "AN ERROR"
    print(
        f"{N_CLIENTS} clients, {seconds:.0f} s: {served.n_notes.value:,} notes, {said}; "
        f"memory {first:.0f} MB in the second tenth of the time, {last:.0f} MB in the last ({last / first:.2f})"
    )
    return is_whole and last <= FLAT * first


def report(measured: dict[str, list[dict[str, float]]]) -> bool:
    """Print rates and ratios; -> whether the target is reached."""
    reached = 0.0
    for what, unit in (("rate", "notes/s"), ("rate_of_cpu", "notes/CPU second")):
        for name, values in measured.items():
            middle = statistics.median(value[what] for value in values)
            ratios = [mine[what] / its[what] for mine, its in zip(measured["service"], values, strict=True)]
            low, ratio, high = statistics.quantiles(ratios, n=4, method="inclusive")
            print(f"  {name:<24} {middle:8.1f} {unit:<16}  {ratio:.2f} ({low:.2f}-{high:.2f})")
            if (what, name) == ("rate", "library, load beside it"):
                reached = ratio
    verdict = "reached" if reached >= TARGET else "NOT reached"
    print(f"{verdict}: {reached:.2f} of the library's rate, target {TARGET}")
    return reached >= TARGET


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="model folder (the shipped one)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of one turn (2)")
    parser.add_argument("--rounds", type=int, default=20, help="(20)")
    parser.add_argument("--hostile", action="store_true", help="attack the service instead; see hostile.py")
    parser.add_argument(
        "--before", metavar="REVISION", help="with --hostile: attack that revision's service too"
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="with --hostile: attacks that contain this"
    )
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="keep all clients busy instead")
    options = parser.parse_args()
    if options.hostile:
        return 0 if hostile.run(read_texts(), seconds=8.0, before=options.before, only=options.only) else 1
    if options.soak:
        return 0 if soak(options, read_texts()) else 1
    measured = measure(options, read_texts())
    print(
        f"{N_CLIENTS} clients, {NOTES_A_REQUEST} notes a request, {options.rounds} rounds of {options.seconds:g} s; "
        "the service as a share of the library, median of the rounds (quartiles):"
    )
    return 0 if report(measured) else 1


if __name__ == "__main__":
    sys.exit(main())
