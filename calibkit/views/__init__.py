"""What a person wants to know first of a result: a view for each kind.

A view is a module with `view(result, page)`, which fills a page, `lines(result)`, its summary, and
`headline(result)`, which says in a few words what it is: see `calibkit.models.kinds.View`.
"""
