"""The functions of ``import calibkit as ck``: one module a command, on frames instead of files.

`calibkit` itself names them and loads each when it is first used.
"""
