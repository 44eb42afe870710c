"""The data contract as a report: what `calibkit validate` finds in a file, all of it at once."""
