"""Results read back: their figures by address, and expressions that must not hold of them."""
