"""The version: what is written into models and outputs, and what the package is built from."""

__version__ = "0.1.0"
