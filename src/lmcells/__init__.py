"""Zero-shot clinical acronym expansion by Latent Meaning Cells."""

__version__ = "0.1.0"
