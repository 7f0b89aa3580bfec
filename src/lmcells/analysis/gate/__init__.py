"""How a model weighs a section against words."""
