"""The descriptions of Debian's packages, each with its section as category: notes for `lmcells prepare`.

    python make_notes.py --output notes.jsonl                            # from the package lists of this machine
    python make_notes.py --output notes.jsonl --lists lists --update     # from lists fetched into a folder of your own

`apt-cache dumpavail` gives each package's section (games, sound, net ...); the long descriptions are in apt's
translation lists, found by their checksum. Packages of one source repeat each other, so a paragraph is kept only where
it comes first.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lmcells.errors import InputError, LmcellsError

APT_HELPER = Path("/usr/lib/apt/apt-helper")
ENGLISH = "Acquire::Languages=en"

Record = dict[str, str]


@dataclass(frozen=True)
class Package:
    """A package's name, section and description: the title, then paragraphs."""

    name: str
    section: str
    paragraphs: tuple[str, ...]


def read_records(lines: Iterable[str]) -> Iterator[Record]:
    """Read records with a blank line after each: `Field: value`, and further lines of a value begin with a space."""
    record: Record = {}
    field = ""
    for line in (each.rstrip("\n") for each in lines):
        if not line:
            if record:
                yield record
            record, field = {}, ""
        elif line[0] in " \t":
            if field:
                record[field] += f"\n{line[1:]}"
        else:
            field, _, value = line.partition(":")
            record[field] = value.strip()
    if record:
        yield record


def read_packages(available: Iterable[str], translations: Iterable[str]) -> Iterator[Package]:
    """Join sections and long descriptions; of several versions of a package the first one counts."""
    long = {
        record["Description-md5"]: record["Description-en"]
        for record in read_records(translations)
        if "Description-en" in record and "Description-md5" in record
    }
    seen = set()
    for record in read_records(available):
        name = record.get("Package", "")
        description = long.get(record.get("Description-md5", ""), record.get("Description", ""))
        section = record.get("Section", "").rpartition("/")[2]  # "contrib/games" is games
        if name and section and description and name not in seen:
            seen.add(name)
            yield Package(name, section, _paragraphs(description))


def _paragraphs(description: str) -> tuple[str, ...]:
    title, _, body = description.partition("\n")
    return (title, *("\n".join(each) for each in _split(body.splitlines())))


def _split(lines: Iterable[str]) -> Iterator[list[str]]:
    """A line with nothing but a full stop is a blank line, says Debian's policy."""
    paragraph: list[str] = []
    for line in lines:
        if line.strip() in ("", "."):
            if paragraph:
                yield paragraph
            paragraph = []
        else:
            paragraph.append(line.strip())
    if paragraph:
        yield paragraph


def without_repetitions(packages: Iterable[Package]) -> Iterator[Package]:
    """Keep a paragraph only in the first package that has it, and only packages that have one left."""
    seen = set()
    for package in packages:
        kept = []
        for paragraph in package.paragraphs:
            key = " ".join(paragraph.lower().split())
            if key not in seen:
                seen.add(key)
                kept.append(paragraph)
        if kept:
            yield Package(package.name, package.section, tuple(kept))


def note_of(package: Package) -> dict[str, object]:
    """A note for `lmcells prepare`, as one section: a line such as "Features:" does not start a new one."""
    text = "\n\n".join(package.paragraphs)
    return {
        "id": package.name,
        "category": package.section,
        "sections": [{"header": None, "text": text}],
    }


def ask_apt(*command: str | Path, lists: Path | None = None) -> str:
    """What a command of apt prints; with `lists`, about the package lists of that folder."""
    options = ("-o", ENGLISH, *(() if lists is None else ("-o", f"Dir::State::lists={lists.resolve()}")))
    done = subprocess.run(
        [*command, *options], capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise InputError(f"{Path(command[0]).name} failed: {said[-1]}")
    return done.stdout


def fetch_lists(lists: Path) -> None:
    """Fetch package lists with long descriptions into a folder of your own; no special rights are needed."""
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    ask_apt("apt-get", "update", "--quiet=2", lists=lists)


def read_apt(lists: Path | None) -> tuple[str, str]:
    """What is available, and the descriptions in English: two texts of records."""
    format_, kind = "--format=$(FILENAME)", "Created-By: Translations"
    found = ask_apt("apt-get", "indextargets", format_, kind, lists=lists).splitlines()
    if not found:
        raise InputError(
            "the package lists have no long descriptions. Fetch lists that do, into a folder of your own: "
            "--lists FOLDER --update"
        )
    available = ask_apt("apt-cache", "dumpavail", lists=lists)
    return available, "".join(f"{ask_apt(APT_HELPER, 'cat-file', path)}\n" for path in found)


def write_notes(packages: Iterable[Package], output: Path) -> Counter[str]:
    """Write the notes as JSON lines; how many there are of each section."""
    written: Counter[str] = Counter()
    with output.open("w", encoding="utf-8") as file:
        for package in packages:
            file.write(json.dumps(note_of(package), ensure_ascii=False) + "\n")
            written[package.section] += 1
    return written


def run(options: argparse.Namespace) -> None:
    """Read from files or from apt, write the notes, and print how many there are."""
    if options.available or options.translations:
        if not (options.available and options.translations):
            raise InputError("--available and --translations go together: sections and long descriptions.")
        available, translations = (
            path.read_text(encoding="utf-8") for path in (options.available, options.translations)
        )
    else:
        if not (shutil.which("apt-cache") and shutil.which("apt-get") and APT_HELPER.is_file()):
            raise InputError(
                "this machine has no apt. Run this on Debian or Ubuntu, or give copies of its lists: "
                "--available FILE --translations FILE"
            )
        if options.update:
            if options.lists is None:
                raise InputError("--update fetches into a folder of your own. Name it: --lists FOLDER")
            fetch_lists(options.lists)
        available, translations = read_apt(options.lists)
    packages = read_packages(available.splitlines(), translations.splitlines())
    written = write_notes(without_repetitions(packages), options.output)
    if not written:
        raise InputError("no package with a section and a description was found. Fetch the lists again.")
    print(f"{options.output}: {written.total():,} packages in {len(written)} sections")


def main() -> int:
    """Parse the options and run; an error is one line, and exit code 2."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True, metavar="NOTES", help="JSON lines to write")
    parser.add_argument("--lists", type=Path, metavar="FOLDER", help="package lists (this machine's own)")
    parser.add_argument("--update", action="store_true", help="fetch them into --lists first")
    parser.add_argument(
        "--available", type=Path, metavar="FILE", help="instead of apt: what `apt-cache dumpavail` printed"
    )
    parser.add_argument("--translations", type=Path, metavar="FILE", help="and a Translation-en list")
    try:
        run(parser.parse_args())
    except (LmcellsError, OSError) as error:
        print(f"make_notes.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
