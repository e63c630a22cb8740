"""One sweep's cells as a tidy table, one row per trial, and what its cells were computed with."""

from wordsens.scripting import job

with job(snakemake):
    from wordsens.results import cells_table, trials_table, write_html, write_table

    write_table(trials_table(snakemake.input), snakemake.output.table)
    write_html(cells_table(snakemake.input), snakemake.output.provenance)
