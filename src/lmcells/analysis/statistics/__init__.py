"""The mathematics that the views share; it knows nothing of models."""
