"""Which module finishes the states of which command."""

#: Where the function ``finish_state(console, state, memory, threads)`` of each kind is.
FINISHERS = {
    "boundary": "boundary_run",
    "calibrate": "calibrate_run",
    "bin": "bin_run",
    "hetcal": "hetcal_run",
    "alpha-cal": "alpha_cal_run",
    "calibrate --probs": "calibrate_classes",
}
