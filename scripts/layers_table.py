"""One study's cells as a tidy table, one row per trial and layer."""

from wordsens.scripting import job

with job(snakemake):
    from wordsens.experiments.layers import layers_table
    from wordsens.results import cells_table, write_html, write_table

    write_table(layers_table(snakemake.input), snakemake.output.table)
    write_html(cells_table(snakemake.input), snakemake.output.provenance)
