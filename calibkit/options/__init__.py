"""The options of every command, each written once: name, type, default, help and check.

One class a command. The command line's parameters, the signatures and docstrings of the Python
functions, the reference in the docs and the checks of values are all made from it.  What cannot be
read, or contradicts something else, is refused by a `UsageError` that says what can be.
"""
