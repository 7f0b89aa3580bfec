"""`lmcells inspect neighbors | senses | mixtures | vectors | uncertainty`: what words mean to a model."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from string import ascii_uppercase

from lmcells.analysis.cells import WordCells
from lmcells.analysis.gaussian_mixture import N_SAMPLES, MonteCarlo
from lmcells.analysis.mixtures import MOST_WORDS, Comparison, compare, phrase_mixture, section_mixture
from lmcells.analysis.names import NULL_SECTION
from lmcells.analysis.neighbors import AGAINST, MEASURES, NearestWords, nearest_words
from lmcells.analysis.senses import Movement, WordSenses, measure_movement, word_senses
from lmcells.analysis.statistics import N_RESAMPLES
from lmcells.analysis.uncertainty import MIN_COUNT, VARIANCES, Association, WordUncertainty, word_variances
from lmcells.analysis.vectors import FORMATS, require_format, section_vectors, word_vectors, write_vectors
from lmcells.cli.arguments import Command, add_overwrite
from lmcells.cli.inspect_options import (
    add_inventory,
    add_min_count,
    add_model_options,
    add_number,
    add_view_options,
    figures,
    open_inventory,
    open_model,
    show,
    with_interval,
)
from lmcells.cli.terminal import print_columns, print_json, print_table
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import model_folder


def _add_neighbors(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("word", metavar="WORD", help="a word that the model knows")
    parser.add_argument(
        "--section",
        metavar="NAME",
        help=f'the section it is in, or "{NULL_SECTION}" (its average over sections)',
    )
    parser.add_argument(
        "--against",
        choices=AGAINST,
        default=AGAINST[0],
        help="the other words' cells: under the same section, or expected over their own sections (section)",
    )
    parser.add_argument(
        "--by",
        choices=MEASURES,
        default=MEASURES[0],
        help="KL divergence of the cells, or cosine of their means (divergence)",
    )
    add_min_count(parser)
    add_number(parser, "--top", "list N words", default=10)
    add_view_options(parser)


def _run_neighbors(options: argparse.Namespace) -> None:
    model = open_model(options)
    found = nearest_words(
        WordCells(model),
        options.word,
        options.section,
        against=options.against,
        measure=options.by,
        min_count=options.min_count,
        n=options.top,
    )
    show(
        options,
        model,
        found.to_dict(),
        lambda: figures().draw_nearest_words(found),
        lambda: _print_nearest(found),
    )


def _print_nearest(found: NearestWords) -> None:
    if found.section is None:
        where, moved = f"on average, seen {found.count:,} times", ""
    else:
        seen = "" if found.count_in_section is None else f" ({found.count_in_section:,} of them here)"
        where = f"under {found.section}, seen {found.count:,} times{seen}"
        moved = f"; {found.moved:.2f} nats from its average meaning"
    print(f"{found.word} {where}; variance {found.variance:.2f}{moved}")
    rows = [
        (each.word, f"{each.divergence:.2f}", f"{each.cosine:.2f}", f"{each.count:,}")
        for each in found.neighbors
    ]
    print_columns([("nearest", "KL", "cosine", "seen"), *rows])


def _add_senses(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("word", metavar="WORD", help="a word that the model knows")
    parser.add_argument("--sections", nargs="+", default=[], metavar="NAME", help="sections to look at")
    parser.add_argument("--words", nargs="+", default=[], metavar="WORD", help="words to compare it with")
    add_number(parser, "--n-sections", "sections to choose, if none are given", default=6)
    add_number(parser, "--n-words", "words to choose, if none are given", default=12)
    add_number(parser, "--top", "list N nearest words for each section", default=5)
    add_min_count(parser)
    add_view_options(parser)


def _run_senses(options: argparse.Namespace) -> None:
    model = open_model(options)
    cells = WordCells(model)
    senses = word_senses(
        cells,
        options.word,
        sections=options.sections,
        words=options.words,
        min_count=options.min_count,
        n_sections=options.n_sections,
        n_words=options.n_words,
        n_neighbors=options.top,
    )
    movement = measure_movement(cells)
    show(
        options,
        model,
        {**senses.to_dict(), "movement": movement.to_dict()},
        lambda: figures().draw_senses(senses),
        lambda: _print_senses(senses, movement),
    )


def _print_senses(senses: WordSenses, movement: Movement) -> None:
    """Print each section with its nearest words, a table whose columns are the sections' letters, and the movement."""
    print(f"{senses.word}, seen {senses.count:,} times")
    every = [*senses.sections, senses.average]
    letters = [_letter(column) for column in range(len(senses.sections))]
    rows = [
        (
            letter,
            sense.section or "average",
            "-" if sense.count is None else f"{sense.count:,}",
            f"{sense.moved:.2f}",
            ", ".join(each.word for each in sense.neighbors),
        )
        for letter, sense in zip([*letters, ""], every, strict=True)
    ]
    print_columns([("", "section", "seen", "moved", "nearest words"), *rows], left=(0, 1, 4))
    print()
    table = [
        (
            word,
            *(f"{each.probability:.0%} x{each.ratio:.1f}" for each in of_word[:-1]),
            f"{of_word[-1].probability:.0%}",
        )
        for word, *of_word in zip(senses.words, *(sense.likenesses for sense in every), strict=True)
    ]
    print_columns([("", *letters, "average"), *table])
    print(
        f"\nIn this model two sections are {movement.between_sections:.2f} nats apart for a word, two words "
        f"{movement.between_words:.2f} under a section.\nOf the variance of the means {movement.of_words:.0%} is the "
        f"word's, {movement.of_sections:.0%} the section's (the same for all words), {movement.of_pairs:.0%} their "
        "combination's."
    )


def _letter(column: int) -> str:
    """A, B, ... Z, AA, AB, ..."""
    more, letter = divmod(column, len(ascii_uppercase))
    return (_letter(more - 1) if more else "") + ascii_uppercase[letter]


def _add_mixtures(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help="a word or phrase; with --sections, a section"
    )
    parser.add_argument("--sections", action="store_true", help="the names are sections")
    add_number(parser, "--top", "list N components of each mixture, the heaviest", default=5, least=0)
    add_number(parser, "--samples", "draws from each mixture", default=N_SAMPLES, least=2)
    add_number(parser, "--seed", "random seed", default=0, least=0)
    add_view_options(parser)


def _run_mixtures(options: argparse.Namespace) -> None:
    model = open_model(options)
    mixture = section_mixture if options.sections else phrase_mixture
    by_name = {marginal.name: marginal for marginal in (mixture(model, name) for name in options.names)}
    comparison = compare(list(by_name.values()), n_samples=options.samples, seed=options.seed)
    part = "word" if options.sections else "section"
    show(
        options,
        model,
        comparison.to_dict(),
        lambda: figures("point_figures").draw_mixtures(comparison, part=part),
        lambda: _print_comparison(comparison, part=part, n_shown=options.top),
    )


def _print_comparison(comparison: Comparison, *, part: str, n_shown: int) -> None:
    """Print a table of each mixture's components, then one of the divergences."""
    for marginal, information in zip(comparison.marginals, comparison.information, strict=True):
        mixture = marginal.mixture
        covered = "" if marginal.covered > 0.9995 else f" with {marginal.covered:.0%} of the weight"
        seen = "" if marginal.n_seen is None else f" of {marginal.n_seen:,}"
        print(
            f"{marginal.name}: {len(mixture):,} {part}s{covered}, counted on {marginal.n_counted:,}{seen} occurrences\n"
            f"  variance {mixture.total_variance:.4f} = {mixture.within:.4f} within {part}s + {mixture.between:.4f} "
            f"between them; effectively {mixture.n_effective:.1f} {part}s\n"
            f"  a meaning tells {_with_error(information)} nats about its {part}"
        )
        parts = zip(marginal.parts[:n_shown], mixture.weights, mixture.variances, strict=False)
        rows = [(name, f"{weight:.3f}", f"{variance:.3f}") for name, weight, variance in parts]
        if rows:
            print_columns([(part, "weight", "variance"), *rows])
        print()
    if not comparison.divergences:
        return
    n_samples = max(each.sampled.n_samples for each in comparison.divergences.values())
    print(f"KL(one || other) in nats, {n_samples:,} draws")
    table = [
        (
            f"{comparison.marginals[p].name} || {comparison.marginals[q].name}",
            _with_error(each.sampled),
            *(f"{value:.2f}" for value in (each.variational, each.matched, each.convex)),
        )
        for (p, q), each in comparison.divergences.items()
    ]
    print_columns([("", "sampled", "variational", "matched", "convex"), *table])


def _with_error(found: MonteCarlo) -> str:
    return f"{found.value:.2f}" + (f" ± {found.standard_error:.2f}" if found.standard_error else "")


_VECTORS = {"words": word_vectors, "sections": section_vectors}


def _add_vectors(parser: argparse.ArgumentParser) -> None:
    formats = ", ".join(FORMATS)
    parser.add_argument(
        "--output", required=True, type=Path, metavar="FILE", help=f"write the vectors ({formats})"
    )
    add_overwrite(parser, replaces="a file")
    parser.add_argument("--what", choices=_VECTORS, default="words", help="whose vectors (words)")
    add_model_options(parser)


def _run_vectors(options: argparse.Namespace) -> None:
    format_ = require_format(options.output)
    vectors = _VECTORS[options.what](PretrainedModel.from_pretrained(model_folder(options.model)))
    write_vectors(options.output, vectors)
    summary = {"format": format_, options.what: len(vectors.names), "dimensions": vectors.dim}
    if options.json:
        print_json({"output": str(options.output), **summary, "left_out": vectors.n_left_out})
        return
    left_out = [("left out, no word counted", vectors.n_left_out)] if vectors.n_left_out else []
    print_table([*summary.items(), *left_out], title=str(options.output))


def _add_uncertainty(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="words to show as well, marked in the figure"
    )
    parser.add_argument(
        "--by",
        choices=VARIANCES,
        default="within",
        help="rank words by the variance within their cells, between their sections, or in total (within)",
    )
    add_number(parser, "--top", "list N words from each end", default=8, least=0)
    add_min_count(parser, default=MIN_COUNT, otherwise="")
    add_inventory(parser)
    add_number(parser, "--resamples", "resamples of the bootstrap", default=N_RESAMPLES, least=20)
    add_number(parser, "--seed", "random seed of the bootstrap", default=0, least=0)
    add_view_options(parser)


def _run_uncertainty(options: argparse.Namespace) -> None:
    model = open_model(options)
    variances = word_variances(model, inventory=open_inventory(options), min_count=options.min_count)
    named = variances.named(model, options.words)
    associations = variances.associations(n_resamples=options.resamples, seed=options.seed)
    most = variances.ranked(options.by, most=options.top)
    least = variances.ranked(options.by, most=options.top, largest=False)

    def print_view() -> None:
        print(f"{len(variances.words):,} words seen {options.min_count:,} times or more")
        print_columns(
            [
                ("", "count", "sections", "senses", "within", "percentile", "between", "total"),
                *_uncertainty_rows("asked for:", named),
                *_uncertainty_rows(f"largest variance {options.by}:", most),
                *_uncertainty_rows(f"smallest variance {options.by}:", least),
            ]
        )
        _print_associations(associations)

    data = {
        "by": options.by,
        "n_words": len(variances.words),
        "words": [word.to_dict() for word in named],
        "most": [word.to_dict() for word in most],
        "least": [word.to_dict() for word in least],
        "associations": [association.to_dict() for association in associations],
    }
    show(
        options,
        model,
        data,
        lambda: figures("point_figures").draw_uncertainty(variances, associations, named=named),
        print_view,
    )


def _uncertainty_rows(title: str, words: Sequence[WordUncertainty]) -> list[tuple[str, ...]]:
    rows = [
        (
            f"  {word.word}",
            f"{word.count:,}",
            f"{word.n_sections:.1f}",
            f"{word.n_senses}" if word.n_senses else "-",
            f"{word.within:.4f}",
            f"{100 * word.share_below:.0f}",
            f"{word.between:.4f}",
            f"{word.total:.4f}",
        )
        for word in words
    ]
    return [(title, *[""] * 7), *rows] if rows else []


def _print_associations(associations: Sequence[Association]) -> None:
    print("\nSpearman's rank correlation [95 %]")
    by_row: dict[tuple[str, str], dict[str, str]] = {}
    for each in associations:
        against = each.against + (f", {each.given} fixed" if each.given else "")
        by_row.setdefault((against, f"{each.n_words:,}"), {})[each.variance] = with_interval(each.rho)
    rows = [(*names, *(cells.get(name, "-") for name in VARIANCES)) for names, cells in by_row.items()]
    print_columns([("", "words", *VARIANCES), *rows])


NEIGHBORS = Command(
    summary="the words nearest to a word, under a section",
    description=f"""\
List the words nearest to a word's cell p(z | word, section). Without --section: to its expected meaning over the
sections that it was seen in; with --section "{NULL_SECTION}": to its cell with null metadata. The other words' cells
are taken under the same section, or (--against expected) are expected over their own sections, which also shows where
the section pulls the word.""",
    example="""\
examples:
  lmcells inspect neighbors history --section "FAMILY HISTORY"
  lmcells inspect neighbors history --section "SOCIAL HISTORY" --against expected --output history.svg""",
    add_arguments=_add_neighbors,
    run=_run_neighbors,
)
SENSES = Command(
    summary="what a word is near to under different sections",
    description="""\
Compare a word's cell under each section with a list of words. The probabilities are a softmax of -KL(p(z | word,
section) || the other word's expected meaning) over the list; "x1.4" says that a word is 1.4 times as likely as it is
for the word's average meaning: that is where the section pulls it. Without --sections: those in which the word was seen
most. Without --words: frequent words that distinguish the sections.""",
    example="""\
examples:
  lmcells inspect senses history --sections "SOCIAL HISTORY" "FAMILY HISTORY" --words smoking mother
  lmcells inspect senses cold --output cold.svg""",
    add_arguments=_add_senses,
    run=_run_senses,
)
MIXTURES = Command(
    summary="words or sections as mixtures of Gaussians, and the divergences between them",
    description=f"""\
A word is a mixture of its cells under each section that it occurs in; a section (--sections) is a mixture of the cells
of its {MOST_WORDS:,} likeliest words. Each is described, and compared with each other by KL(one || other) in nats:
sampled, with its standard error; variational and matched, two approximations; and convex, an upper bound.""",
    example="""\
examples:
  lmcells inspect mixtures cold fever "heart failure" --output mixtures.svg
  lmcells inspect mixtures --sections "SOCIAL HISTORY" "FAMILY HISTORY" MEDICATIONS""",
    add_arguments=_add_mixtures,
    run=_run_mixtures,
)
VECTORS = Command(
    summary="write the expected meaning of every word or section as vectors (word2vec, gensim)",
    description="""\
Write the expected meaning of every word, over the sections that it occurs in, or of every section, over its words, in
the text (.txt, .vec) or binary (.bin) format of word2vec. Spaces in names become underscores: PAST_MEDICAL_HISTORY.""",
    example="""\
examples:
  lmcells inspect vectors --output words.bin
  lmcells inspect vectors --what sections --output sections.txt
then, in Python:
  KeyedVectors.load_word2vec_format("words.bin", binary=True).most_similar("fever")""",
    add_arguments=_add_vectors,
    run=_run_vectors,
)
UNCERTAINTY = Command(
    summary="words by prior variance, against frequency and number of senses",
    description="""\
How sure the model is of its words before it reads a context: the variance of their cells within a section, and between
their sections. Below the most and least certain words come rank correlations (Spearman; 95 % by bootstrap over words)
with frequency, the effective number of sections, and the number of long forms of a short form in an inventory.""",
    example="""\
examples:
  lmcells inspect uncertainty
  lmcells inspect uncertainty history cold ms --by between --output uncertainty.svg""",
    add_arguments=_add_uncertainty,
    run=_run_uncertainty,
)
