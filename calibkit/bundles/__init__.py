"""Bundles: several models as one file, applied in order, that decide between several actions."""
