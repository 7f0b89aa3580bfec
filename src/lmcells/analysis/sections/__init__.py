"""What sections are to a model."""
