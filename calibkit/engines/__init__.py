"""Where the work on files is done: here, one after the other, or on the machines of a cluster."""
