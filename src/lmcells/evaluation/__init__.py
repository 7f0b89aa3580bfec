"""Datasets of labelled short forms, and how well a model expands them."""
