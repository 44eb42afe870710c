"""Where rows come from and where results go: formats, readers, inputs, atomic outputs."""
