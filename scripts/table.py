"""The table of one study, from its cells or, where it has none, at once; and its other pages."""

from wordsens.scripting import job, torch_device

with job(snakemake):
    from wordsens.files import write_texts
    from wordsens.plugins import load_plugins
    from wordsens.results import cells_table, write_html, write_table
    from wordsens.studies import kind_named

    load_plugins(snakemake.config.get("plugins"))
    study, inputs = kind_named(snakemake.params.kind), snakemake.input
    tables = study.part("table").tables
    if study.axes:
        made = tables(list(inputs))
        write_html(cells_table(inputs), snakemake.output.provenance)
    else:
        device = torch_device(snakemake.params.device)
        made = tables(snakemake.params.cell, dict(inputs.items()), device)
    for name, content in made.items():
        path = snakemake.output[name]
        if isinstance(content, (str, dict)):
            write_texts(path, content)
        else:
            write_table(content, path)
