"""Which module finishes the states of which command."""

#: Where the function ``finish_state(console, state, memory, threads)`` of each kind is.
FINISHERS = {
    "evaluate": "evaluate_run",
}
