"""Columns of the inputs as checked arrays: the only place where option text becomes numbers."""
