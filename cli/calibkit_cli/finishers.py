"""Which module finishes the states of which command."""

#: Where the function ``finish_state(console, state, memory, threads)`` of each kind is.
FINISHERS = {
    "boundary": "boundary_run",
    "evaluate": "evaluate_run",
    "bin": "bin_run",
}
