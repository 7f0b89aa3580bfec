"""How much of the library's speed is left over HTTP: 64 clients at one time, 16 notes a request.

    python benchmarks/service_speed.py         # the shipped model, on notes of ../shared/data or of examples/
    python benchmarks/service_speed.py --model MODEL --seconds 10 --rounds 5

Real processes: `lmcells serve` with one worker, a load generator (HTTP/1.1 over plain sockets, connections kept
open), and the library in a process of its own (`Expander.pipe`). Both expand the same notes, in turns. The library is
measured twice: alone, and with the load generator running beside it against a server that only waits and
sends an answer of the service's size, as often as the service did: the generator costs both the same. What is
judged is the median of the rounds' ratios. Notes a second of processor time are printed as well: on a machine that
has other work to do, they are the steadier figure.
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
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path

import psutil

from lmcells import Expander

REPOSITORY = Path(__file__).resolve().parents[1]
NOTES = REPOSITORY.parent / "shared/data/dev/mtsamples_raw.parquet"
N_CLIENTS, NOTES_A_REQUEST = 64, 16
N_NOTES = 512
WARM_UP = 3.0
TARGET = 0.8


def read_texts() -> list[str]:
    """Whole notes: MTSamples where they are, else the invented ones."""
    if NOTES.is_file():
        import pyarrow.parquet

        texts = pyarrow.parquet.read_table(NOTES, columns=["text"])["text"].to_pylist()
    else:
        texts = [path.read_text("utf-8") for path in sorted((REPOSITORY / "examples/notes").glob("*.txt"))]
    return list(islice(cycle(texts), N_NOTES))


class Load:
    """What the generator saw: requests answered in the measured time, and the bytes of an answer."""

    def __init__(self, bodies: Sequence[bytes], *, warm_up: float, seconds: float) -> None:
        self.bodies = cycle(bodies)
        self.begin = time.perf_counter() + warm_up
        self.end = self.begin + seconds
        self.seconds = seconds
        self.n_answers = 0
        self.n_bytes = 0

    async def client(self, host: str, port: int) -> None:
        """One client: it asks again as soon as it is answered."""
        reader, writer = await asyncio.open_connection(host, port, limit=1 << 22)
        while time.perf_counter() < self.end:
            body = next(self.bodies)
            writer.write(
                b"POST /expand HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body) + body
            )
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in head[:20]:
                raise SystemExit(f"the service answered {head[:60]!r}")
            length = int(re.search(rb"content-length: (\d+)", head, re.I)[1])
            await reader.readexactly(length)
            if self.begin <= time.perf_counter() < self.end:
                self.n_answers += 1
                self.n_bytes += length
        writer.close()


async def generate(
    port: int, bodies: Sequence[bytes], *, warm_up: float, seconds: float, server: int | None = None
) -> dict[str, float]:
    """Run all clients; -> notes a second, by the clock and by the server's processor time, and bytes an answer."""
    load = Load(bodies, warm_up=warm_up, seconds=seconds)
    process = psutil.Process(server)

    async def watch() -> float:
        await asyncio.sleep(load.begin - time.perf_counter())
        start = process.cpu_times()
        await asyncio.sleep(load.end - time.perf_counter())
        end = process.cpu_times()
        return float(end.user + end.system - start.user - start.system)

    cpu_seconds, *_ = await asyncio.gather(
        watch(), *(load.client("127.0.0.1", port) for _ in range(N_CLIENTS))
    )
    n_notes = load.n_answers * NOTES_A_REQUEST
    return {
        "rate": n_notes / seconds,
        "rate_of_cpu": n_notes / cpu_seconds,
        "n_bytes": load.n_bytes / max(1, load.n_answers),
    }


async def generate_idle(bodies: Sequence[bytes], *, rate: float, n_bytes: int, seconds: float) -> None:
    """The same load on a server that only waits, then sends as many bytes, so that the rate is the same."""
    pause = N_CLIENTS * NOTES_A_REQUEST / rate
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % n_bytes + b"x" * n_bytes

    async def answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            await reader.readexactly(int(re.search(rb"Content-Length: (\d+)", head)[1]))
            await asyncio.sleep(pause)
            writer.write(answer)

    def end_quietly(_: asyncio.AbstractEventLoop, __: dict[str, object]) -> None: ...

    asyncio.get_running_loop().set_exception_handler(end_quietly)  # clients that have finished hang up
    server = await asyncio.start_server(answer_all, "127.0.0.1", 0, limit=1 << 22)
    await generate(server.sockets[0].getsockname()[1], bodies, warm_up=0, seconds=seconds)


def measure_library(
    texts: Sequence[str], model: str | None, *, warm_up: float, seconds: float
) -> dict[str, float]:
    """Notes a second of `Expander.pipe`, by the clock and by the processor's time."""
    expander = Expander.from_pretrained(model)
    stream = expander.pipe(cycle(texts), batch_size=64)
    end_of_warm_up = time.perf_counter() + warm_up
    while time.perf_counter() < end_of_warm_up:
        next(stream)
    start, start_of_cpu, n_notes = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() < start + seconds:
        next(stream)
        n_notes += 1
    return {
        "rate": n_notes / (time.perf_counter() - start),
        "rate_of_cpu": n_notes / (time.process_time() - start_of_cpu),
    }


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
            process.terminate()
            process.wait()
            log.wait()


def in_process(*arguments: str) -> subprocess.Popen[str]:
    """This file again, as another process."""
    return subprocess.Popen([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True)


def result(process: subprocess.Popen[str]) -> dict[str, float]:
    """What such a process printed."""
    out, _ = process.communicate()
    if process.returncode:
        raise SystemExit(process.returncode)
    return dict(json.loads(out))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="model folder (the shipped one)")
    parser.add_argument("--seconds", type=float, default=8.0, help="of one measurement (8)")
    parser.add_argument("--rounds", type=int, default=3, help="(3)")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--given", type=json.loads, default={}, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        return run_part(options)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.json"
        path.write_text(json.dumps(read_texts()))
        return compare(options, str(path))


def run_part(options: argparse.Namespace) -> int:
    given = options.given
    texts = json.loads(Path(given["texts"]).read_text())
    pairs = [texts[first : first + NOTES_A_REQUEST] for first in range(0, len(texts), NOTES_A_REQUEST)]
    bodies = [json.dumps({"notes": [{"text": text} for text in group]}).encode() for group in pairs]
    if options.part == "library":
        found = measure_library(texts, options.model, warm_up=WARM_UP, seconds=options.seconds)
        print(json.dumps(found))
    elif options.part == "load":
        load = generate(given["port"], bodies, warm_up=WARM_UP, seconds=options.seconds, server=given["pid"])
        print(json.dumps(asyncio.run(load)))
    else:
        idle = generate_idle(
            bodies, rate=given["rate"], n_bytes=int(given["n_bytes"]), seconds=WARM_UP + options.seconds + 2
        )
        asyncio.run(idle)
        print("{}")
    return 0


def compare(options: argparse.Namespace, texts: str) -> int:
    common = ["--seconds", str(options.seconds), *(["--model", options.model] if options.model else [])]

    def part(name: str, **given: object) -> subprocess.Popen[str]:
        return in_process("--part", name, "--given", json.dumps({"texts": texts, **given}), *common)

    measured: dict[str, list[dict[str, float]]] = {
        "service": [],
        "library, load beside it": [],
        "library alone": [],
    }
    for _ in range(options.rounds):
        with service(options.model) as (pid, port):
            served = result(part("load", pid=pid, port=port))
        measured["service"].append(served)
        beside = part("idle", rate=served["rate"], n_bytes=served["n_bytes"])
        measured["library, load beside it"].append(result(part("library")))
        result(beside)
        measured["library alone"].append(result(part("library")))
    title = f"{N_CLIENTS} clients, {NOTES_A_REQUEST} notes a request, {options.rounds} rounds of {options.seconds:g} s"
    print(title + "; the service as a share of the library, round by round:")
    for what, unit in (("rate", "notes/s"), ("rate_of_cpu", "notes/CPU second")):
        for name, values in measured.items():
            middle = statistics.median(value[what] for value in values)
            ratios = [mine[what] / its[what] for mine, its in zip(measured["service"], values, strict=True)]
            shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
            print(f"  {name:<24} {middle:8.1f} {unit:<16}  {shown}")
    rounds = zip(measured["service"], measured["library, load beside it"], strict=True)
    reached = statistics.median(mine["rate"] / its["rate"] for mine, its in rounds)
    print(
        f"{'reached' if reached >= TARGET else 'NOT reached'}: {reached:.2f} of the library's rate, target {TARGET}"
    )
    return 0 if reached >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
