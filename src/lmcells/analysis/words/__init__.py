"""What words mean to a model, and how their section moves them."""
