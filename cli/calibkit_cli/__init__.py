"""What a user types: parse, one call, print."""
