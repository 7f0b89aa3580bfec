"""Fuzz the library with notes and the service with requests: nothing may crash or be answered with a 5xx.

    python benchmarks/fuzz.py --notes 1000000 --requests 100000 --seed 1

Note number N of a seed is always the same, so a failure can be repeated with `--first N --notes 1`. Expansions must lie
in the text, in order, with probabilities from 0 to 1.
"""

import os

for pool in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(pool, "1")

import argparse
import gzip
import http.client
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from lmcells import Expander
from lmcells.errors import InputError
from locations import EXAMPLES

BATCH = 256
N_CLIENTS = 4
PIECES = (
    *"PT Pt. pt's MS s/p c/o CT-guided p.o. DC'd A&Ox3 T2DM x3 1/2 12.5 q4h".split(),
    *"( ) [ ] (( )) : :: ; - -- / & , . ... # * • 1. 1) _ __ [**Name**] <b> &amp;".split(),
    *"PMH: LABS: HPI é ß İ ǅ ﬁ µ ± 😀 👩‍⚕️".split(),
    *("\n", "\n\n", "\r\n", "\t", " ", "IMPRESSION\n", "CC: "),
    *"\u0301\u200b\u202e\ufeff\x00\x1f\x85\u2028",
    *(
        "multiple sclerosis (MS)",
        "MS (mitral stenosis)",
        "physical therapy (PT",
        "(, PT)",
        "prothrombin time, PT,",
    ),
)
ALPHABETS: tuple[Callable[[random.Random], str], ...] = (
    lambda draw: chr(draw.randrange(32, 127)),
    lambda draw: chr(draw.randrange(0xD800)),
    lambda draw: chr(draw.randrange(0xE000, 0x110000)),
    lambda draw: draw.choice("PTMSCV ./-\n(:)"),
)


def read_sources() -> list[str]:
    return [path.read_text("utf-8") for path in sorted(EXAMPLES.glob("*.txt"))]


class Fuzz:
    """Notes by their number."""

    def __init__(self, seed: int, short_forms: Sequence[str]) -> None:
        self._seed = seed
        self._short_forms = short_forms
        self._sources = read_sources()

    def draw(self, number: int) -> random.Random:
        return random.Random(f"{self._seed}-{number}")

    def note(self, number: int) -> str:
        draw = self.draw(number)
        kind = draw.randrange(5)
        if kind == 0:
            alphabet = draw.choice(ALPHABETS)
            return "".join(alphabet(draw) for _ in range(draw.randrange(60)))
        if kind == 1:
            return "".join(draw.choice(PIECES) + draw.choice(("", " ")) for _ in range(draw.randrange(16)))
        if kind == 2:
            words = (
                draw.choice(self._short_forms) + draw.choice((" ", ", ", "\n", ": ", ""))
                for _ in range(draw.randrange(6))
            )
            return "".join(words)
        if kind == 3:
            return draw.choice(PIECES) * (1, 2, 3, 300)[min(3, draw.randrange(60) // 19)] + draw.choice(
                PIECES
            )
        text = draw.choice(self._sources)
        start = draw.randrange(len(text))
        characters = list(text[start : start + draw.randrange(1, 150)])
        for _ in range(draw.randrange(12)):
            at = draw.randrange(len(characters) + 1)
            characters[at : at + draw.randrange(3)] = draw.choice(
                (draw.choice(PIECES), draw.choice(ALPHABETS)(draw))
            )
        text = "".join(characters)
        return draw.choice((text, text.upper(), text.lower(), text[::-1]))

    def request(self, number: int) -> tuple[bytes, dict[str, str]]:
        """A request with a fuzzed note, and more and more of it wrong."""
        draw = self.draw(number)
        given: Any = {"text": self.note(number)}
        headers = {"Content-Type": draw.choice(("application/json",) * 9 + ("application/x-ndjson",))}
        if draw.random() < 0.3:
            given["explain"] = draw.choice((True, False, [0], [0, 6, 10**9], "x", None, [-1], [[]]))
        if draw.random() < 0.2:
            given["expanded_text"] = draw.choice(("replace", "append", "", 1, None))
        if draw.random() < 0.2:
            ends = [draw.randrange(-1, 40) for _ in range(4)]
            given["sections"] = [
                {"start": a, "end": b, "header": draw.choice(PIECES)} for a, b in pairwise(ends)
            ]
        if draw.random() < 0.2:
            sense = {"short_form": draw.choice(PIECES), "long_form": draw.choice(PIECES)}
            action = draw.choice(("add", "remove", "rules", "rules", "only", "x"))
            if action == "rules":
                where = draw.choice(({}, {"section": draw.choice(PIECES)}, {"ward": "*[?"}))
                sense |= {"action": draw.choice(("add", "forbid", "pin", "ban")), "where": where}
            given["inventory"] = {action: [sense] * draw.randrange(3)}
        if draw.random() < 0.3:
            given = draw.choice(
                ({"notes": [given] * draw.randrange(4)}, [given], given["text"], {"notes": given})
            )
        body = json.dumps(given, ensure_ascii=draw.random() < 0.5).encode("utf-8", "surrogatepass")
        if draw.random() < 0.2:
            body = bytes(b for b in body if draw.random() > 0.01) + draw.randbytes(draw.randrange(3))
        if draw.random() < 0.1:
            headers["Content-Encoding"] = draw.choice(("gzip", "gzip", "br", "identity"))
            body = gzip.compress(body)[: draw.choice((None, -1, 5))]
        if draw.random() < 0.1:
            headers["Accept"] = "application/x-ndjson"
        if draw.random() < 0.1:
            headers["Accept-Encoding"] = draw.choice(("gzip", "gzip;q=0", "*", ",,;q"))
        return body, headers


def check(text: str, expansions: Sequence[Any]) -> None:
    """Whether expansions lie in their text, in order, and have probabilities."""
    last = 0
    for each in expansions:
        assert last <= each.start < each.end <= len(text), "an expansion is out of place"
        assert each.probability is None or 0 <= each.probability <= 1, "a probability is none"
        assert (each.long_form is None) == (each.abstained is not None), "neither expanded nor abstained"
        last = each.end


def fuzz_library(expander: Expander, fuzz: Fuzz, numbers: range) -> int:
    """Expand notes; -> the number of short forms that were found."""
    n_found = 0
    started = time.perf_counter()
    for first in range(numbers.start, numbers.stop, BATCH):
        batch = range(first, min(first + BATCH, numbers.stop))
        texts = [fuzz.note(number) for number in batch]
        try:
            for text, expansions in zip(texts, expander.pipe(texts, batch_size=BATCH), strict=True):
                check(text, expansions)
                n_found += len(expansions)
        except Exception:
            find_culprit(expander, fuzz, batch)
            raise
        if (first - numbers.start) % (400 * BATCH) == 0:
            rate = (first - numbers.start) / (time.perf_counter() - started)
            print(f"  {first - numbers.start:>9,} notes, {rate:.0f} a second", flush=True)
    return n_found


def find_culprit(expander: Expander, fuzz: Fuzz, numbers: Sequence[int]) -> None:
    for number in numbers:
        text = fuzz.note(number)
        try:
            check(text, expander(text))
        except InputError:
            raise
        except Exception as error:
            print(f"note {number}: {type(error).__name__}: {error}: {text!r}")


@contextmanager
def service() -> Iterator[int]:
    """A server process; -> its port."""
    with tempfile.TemporaryFile("w+") as log:
        command = [sys.executable, "-m", "lmcells", "serve", "--port", "0"]
        process = subprocess.Popen(command, stderr=log)
        try:
            found = None
            while found is None and process.poll() is None:
                time.sleep(0.05)
                log.seek(0)
                found = re.search(r"http://[\d.]+:(\d+)", log.read())
            assert found, "the service did not start"
            yield int(found[1])
        finally:
            process.terminate()
            process.wait()


def fuzz_service(fuzz: Fuzz, numbers: range) -> Counter[int]:
    """Send requests; -> how often each status was answered."""

    def ask(numbers: Sequence[int]) -> Counter[int]:
        seen: Counter[int] = Counter()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for number in numbers:
            body, headers = fuzz.request(number)
            path = (
                "/v1/expand"
                if number % 20
                else "/v1/expand?explain=%zz&expanded_text=\x7f"[: 10 + number % 21]
            )
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status >= 500:
                print(f"request {number} was answered with {answer.status}")
            seen[answer.status] += 1
        connection.close()
        return seen

    with service() as port, ThreadPoolExecutor(N_CLIENTS) as clients:
        return sum(clients.map(ask, [numbers[start::N_CLIENTS] for start in range(N_CLIENTS)]), Counter())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--notes", type=int, default=10_000, help="through the library (10,000)")
    parser.add_argument("--requests", type=int, default=1_000, help="through the service (1,000)")
    parser.add_argument("--seed", type=int, default=1, help="(1)")
    parser.add_argument("--first", type=int, default=0, help="number of the first note (0)")
    options = parser.parse_args()
    expander = Expander.from_pretrained()
    fuzz = Fuzz(options.seed, expander.inventory.short_forms)
    first = options.first
    n_found = fuzz_library(expander, fuzz, range(first, first + options.notes))
    print(f"{options.notes:,} notes expanded, {n_found:,} short forms; no crash")
    del expander
    answered = fuzz_service(fuzz, range(first, first + options.requests))
    n_wrong = sum(n for status, n in answered.items() if status >= 500)
    print(f"{options.requests:,} requests, by status: {dict(sorted(answered.items()))}; {n_wrong} with 5xx")
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
