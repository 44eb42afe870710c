"""What a model is, where it comes from, and what applies it."""
