"""One study's cells as a tidy table, one row per trial and layer."""

from wordsens.scripting import job

with job(snakemake):
    from wordsens.experiments.layers import layers_table
    from wordsens.results import write_table

    write_table(layers_table(snakemake.input), snakemake.output[0])
