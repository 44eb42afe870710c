"""Models applied to rows, batch by batch."""
