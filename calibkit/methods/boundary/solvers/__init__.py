"""The methods that choose a threshold for each level."""
