"""One sweep's cells as a tidy table, one row per trial."""

from wordsens.scripting import job

with job(snakemake):
    from wordsens.results import trials_table, write_table

    write_table(trials_table(snakemake.input), snakemake.output[0])
