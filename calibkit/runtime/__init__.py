"""The budget of memory, the threads, and progress."""
