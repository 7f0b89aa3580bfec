"""The figures of the views; each needs matplotlib, so nothing is imported from here before one is drawn."""
