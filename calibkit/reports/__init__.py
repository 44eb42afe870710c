"""Pictures: what each shows as a table, and how it is drawn (needs the extra ``calibkit[plot]``)."""
