"""The README of a model folder: what it is, what it was made from, what it is for, and what it is not for."""

from lmcells.pretrained.layout import FolderConfig

_NAME_OF = {
    "lmc": "Latent Meaning Cells",
    "bsg": "Bayesian skip-gram",
    "mbsge": "metadata Bayesian skip-gram ensemble",
}


def model_card(config: FolderConfig) -> str:
    """Markdown for people; everything in it is in config.json for machines."""
    sizes = config.corpus["sizes"]
    corpus = ", ".join(f"{count:,} {name.removeprefix('n_')}" for name, count in sizes.items())
    return f"""# {_NAME_OF[config.kind]} by {config.metadata_kind}

A `{config.kind}` model of lmcells {config.written_by}: from a word, its {config.metadata_kind} and the
words around it to a Gaussian in {config.model["cell_dim"]} dimensions, its meaning there. Trained without
labels; it expands acronyms by comparing the meaning of a short form in its context with those of its possible
long forms.

## Use

```python
from lmcells.pretrained import PretrainedModel

model = PretrainedModel.from_pretrained("path/to/this/folder")  # numpy alone
network = model.to_torch()  # with lmcells[train]: to train on, or to take apart
```

## Data

Corpus `{config.corpus["fingerprint"]}`: {corpus}. Prepared with:

{_table(config.corpus["settings"])}

`vocabulary.json` and `sections.json` hold words and section names of that corpus, each seen several times. Look
through them before you pass a model of private notes on.

## Settings

{_table(config.model)}

Seed: {config.seed}. Weights stored as {config.dtype}. Training:

{_table(_flat(config.training))}

## Intended use and limits

For research, for search and for the preparation of text, where a wrong expansion is noticed or does little
harm. **Not for clinical decisions.** It knows the words of its corpus only, does best on notes like those, and
repeats what is common in them, biases included; rare meanings are the ones it gets wrong.

## Licence

To be filled in by whoever publishes this model: it depends on the notes that the weights were trained on.
"""


def _flat(settings: dict[str, object]) -> dict[str, object]:
    """Put settings that are given as a group in the place of the group."""
    flat: dict[str, object] = {}
    for name, value in settings.items():
        flat |= value if isinstance(value, dict) else {name: value}
    return flat


def _table(settings: dict[str, object]) -> str:
    if not settings:
        return "(not recorded)"
    rows = (f"| {_cell(name)} | {_cell(value)} |" for name, value in settings.items())
    return "\n".join(["| setting | value |", "|---|---|", *rows])


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")
