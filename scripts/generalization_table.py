"""One study's cells as a tidy table, one row per trial, search and way of training."""

from wordsens.scripting import job

with job(snakemake):
    from wordsens.experiments.generalization_table import searches_table
    from wordsens.results import cells_table, write_html, write_table

    write_table(searches_table(snakemake.input), snakemake.output.table)
    write_html(cells_table(snakemake.input), snakemake.output.provenance)
