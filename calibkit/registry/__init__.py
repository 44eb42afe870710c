"""What there is of each kind: models, appliers, fits, states, simulations."""
