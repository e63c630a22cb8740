"""First-block attention of sentences that differ in a word."""

from wordsens.scripting import job

with job(snakemake):
    from wordsens.experiments.trained import attention_entry
    from wordsens.results import write_table

    settings, name = snakemake.params.settings, snakemake.params.name
    write_table(attention_entry(settings, snakemake.input[0], name=name), snakemake.output[0])
