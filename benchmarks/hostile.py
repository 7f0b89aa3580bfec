"""Measure what one hostile or careless client does to the others: `python benchmarks/service_speed.py --hostile`.

A small client sends a one-line note twenty times a second, over a new connection each time, first alone and then beside
the attack. Latencies are measured from when a request was due, so that a stalled service does not get fewer requests.
Each attack gets a fresh service; `--before REVISION` also attacks the service of another revision.
"""

import asyncio
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import psutil

REPOSITORY = Path(__file__).resolve().parents[1]
NOTE = {"text": "LABS: PT 12.5 on warfarin."}
EVERY = 0.05  # seconds between two requests of the small client
GIVE_UP = 30.0
QUIET_SECONDS = 4.0
OPEN_FILES = 1024  # the soft limit on most systems
LATENCY_TARGET = 10.0
MEMORY_TARGET = 1.5


def request(body: bytes, *, length: int | None = None) -> bytes:
    return (
        b"POST /expand HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
        b"Content-Length: %d\r\n\r\n" % (len(body) if length is None else length) + body
    )


async def send(port: int, *parts: bytes) -> bytes:
    """Send a request over a new connection; -> the first line of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        line = await reader.readline()
        while await reader.read(1 << 20):
            pass
        return line
    finally:
        writer.close()


# Attacks: each goes on until it is cancelled, and says of itself when it has begun


Attack = Callable[[int, Sequence[str]], Awaitable[None]]


async def repeat(port: int, body: bytes) -> None:
    while True:
        with suppress(OSError):
            await send(port, request(body))


async def malformed_body(port: int, _: Sequence[str]) -> None:
    await repeat(port, b'{"text":"PT","inventory":{"add":[' + b",".join([b"{}"] * 2_000_000) + b"]}}")


async def empty_notes(port: int, _: Sequence[str]) -> None:
    await repeat(port, b'{"notes":[' + b",".join([b'{"text":""}'] * 640_000) + b"]}")


async def one_short_form(port: int, _: Sequence[str]) -> None:
    await repeat(port, json.dumps({"text": "PT " * 20_000, "explain": True}).encode())


async def long_note(port: int, texts: Sequence[str]) -> None:
    await repeat(port, json.dumps({"text": "\n".join(texts)[:100_000], "explain": True}).encode())


async def many_notes(port: int, texts: Sequence[str]) -> None:
    await repeat(port, json.dumps({"notes": [{"text": text} for text in texts[:300]]}).encode())


async def own_senses(port: int, _: Sequence[str], n_senses: int = 1) -> None:
    for number in count():
        senses = [{"short_form": f"QQ{at}", "long_form": f"quality {number} {at}"} for at in range(n_senses)]
        with suppress(OSError):
            await send(port, request(json.dumps({"text": "QQ0", "inventory": {"add": senses}}).encode()))


async def hold(port: int, n_connections: int, start: bytes) -> None:
    """Open connections, send the same start over each, and then nothing; opened anew when they are closed."""

    async def one() -> None:
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(start)
                await reader.read()
                writer.close()
            await asyncio.sleep(0.5)

    await asyncio.gather(*(one() for _ in range(n_connections)))


async def silent_sockets(port: int, _: Sequence[str]) -> None:
    await hold(port, 1_100, b"")


async def half_headers(port: int, _: Sequence[str]) -> None:
    await hold(port, 500, b"POST /expand HTTP/1.1\r\nHost: local")


async def long_header(port: int, _: Sequence[str]) -> None:
    while True:
        with suppress(OSError):
            await send(port, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", *[b"x" * 1_000_000] * 300)


async def one_byte_bodies(port: int, _: Sequence[str]) -> None:
    await hold(port, 130, request(b"{", length=1_000))


ATTACKS: dict[str, Attack] = {
    "2 malformed body, 2 M entries": malformed_body,
    "2 640,000 empty notes": empty_notes,
    "3 60 kB of PT, explained": one_short_form,
    "3 100 kB note, explained": long_note,
    "3 300 notes": many_notes,
    "3 another sense each time": own_senses,
    "3 1,000 other senses each time": partial(own_senses, n_senses=1_000),
    "4 1,100 silent sockets": silent_sockets,
    "4 500 half headers": half_headers,
    "4 300 MB header": long_header,
    "4 130 one-byte bodies": one_byte_bodies,
}


class Latencies:
    """A small client's."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.n_failed = 0

    async def measure(self, port: int, seconds: float) -> None:
        body = request(json.dumps(NOTE).encode())

        async def ask(due: float) -> None:
            try:
                async with asyncio.timeout(GIVE_UP):
                    if b" 200 " not in await send(port, body):
                        self.n_failed += 1
            except (OSError, TimeoutError):
                self.n_failed += 1
            self.seconds.append(time.perf_counter() - due)

        begin = time.perf_counter()
        asked = []
        for number in range(int(seconds / EVERY)):
            due = begin + number * EVERY
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            asked.append(asyncio.create_task(ask(due)))
        await asyncio.gather(*asked)

    def percentile(self, percent: int) -> float:
        return statistics.quantiles(self.seconds, n=100, method="inclusive")[percent - 1]


@contextmanager
def service(source: Path) -> Iterator[tuple[psutil.Process, int]]:
    """A server process of a source tree; -> itself and its port."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "lmcells", "serve", "--port", "0"],
            stderr=log,
            env=os.environ | {"PYTHONPATH": str(source)},
        )
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (OPEN_FILES, hard))
        try:
            found = None
            while found is None:
                if process.poll() is not None:
                    log.seek(0)
                    raise SystemExit(log.read())
                time.sleep(0.05)
                log.seek(0)
                found = re.search(r"http://[\d.]+:(\d+)", log.read())
            yield psutil.Process(process.pid), int(found[1])
        finally:
            process.kill()
            process.wait()


@asynccontextmanager
async def memory_of(process: psutil.Process) -> AsyncIterator[list[int]]:
    """The bytes of memory that a process has, looked at often."""
    seen = [process.memory_info().rss]

    async def look() -> None:
        while True:
            await asyncio.sleep(0.02)
            with suppress(psutil.Error):
                seen.append(process.memory_info().rss)

    looking = asyncio.create_task(look())
    try:
        yield seen
    finally:
        looking.cancel()


async def attack_service(
    source: Path, attack: Attack, texts: Sequence[str], seconds: float
) -> dict[str, Any]:
    with service(source) as (process, port):
        await Latencies().measure(port, 1.0)
        for _ in range(2):  # at rest means: after some work
            await send(
                port, request(json.dumps({"notes": [{"text": text} for text in texts[:100]]}).encode())
            )
        quiet, beside = Latencies(), Latencies()
        await quiet.measure(port, QUIET_SECONDS)
        at_rest = process.memory_info().rss
        async with memory_of(process) as memory:
            running = asyncio.create_task(attack(port, texts))
            await asyncio.sleep(0.5)
            await beside.measure(port, seconds)
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
        return {
            "p50": beside.percentile(50) / quiet.percentile(50),
            "p95": beside.percentile(95) / quiet.percentile(95),
            "p99": beside.percentile(99) / quiet.percentile(99),
            "quiet_ms": 1000 * quiet.percentile(95),
            "failed": beside.n_failed / len(beside.seconds),
            "memory": max(memory) / at_rest,
        }


def holds(name: str, found: dict[str, Any]) -> bool:
    """Whether the targets are met: memory and p99 beside wrong bodies, p95 beside large notes, nobody cut off."""
    latency = found["p99"] if name.startswith("2") else found["p95"]
    within = found["memory"] <= MEMORY_TARGET or name.startswith("3")
    return latency <= LATENCY_TARGET and found["failed"] == 0 and within


@contextmanager
def source_of(revision: str) -> Iterator[Path]:
    """The source of another revision, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(REPOSITORY), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), revision], check=True)
        try:
            yield tree / "src"
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def run(texts: Sequence[str], *, seconds: float, before: str | None, only: str = "") -> bool:
    """Print the table; -> whether all targets are met."""
    names = "".join(f"{name:>8}" for name in ("p50", "p95", "p99", "failed", "memory"))
    print(f"{'attack':<32} {'':<7}{names}   as ratios to the quiet service")
    all_hold = True
    for name, attack in ATTACKS.items():
        if only not in name:
            continue
        if before:
            with source_of(before) as source:
                show(name, "before", asyncio.run(attack_service(source, attack, texts, seconds)))
        found = asyncio.run(attack_service(REPOSITORY / "src", attack, texts, seconds))
        show(name, "now", found, "" if (fine := holds(name, found)) else "  NOT within the target")
        all_hold &= fine
    return all_hold


def show(name: str, which: str, found: dict[str, Any], verdict: str = "") -> None:
    print(
        f"{name:<32} {which:<7} {found['p50']:>7.1f} {found['p95']:>7.1f} {found['p99']:>7.1f} {found['failed']:>7.0%} "
        f"{found['memory']:>7.2f}   quiet p95 {found['quiet_ms']:.1f} ms{verdict}",
        flush=True,
    )
