"""What is reported of a boundary: its model, its figures, its decisions, its answer in words."""
