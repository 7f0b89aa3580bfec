"""Words and sections as mixtures of cells, and as vectors."""
