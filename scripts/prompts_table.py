"""A language model's answers to prompts that differ in a word."""

from wordsens.scripting import job, torch_device

with job(snakemake):
    from wordsens.experiments.trained import prompts_entry
    from wordsens.results import write_table

    table = prompts_entry(
        snakemake.params.settings,
        snakemake.input[0],
        name=snakemake.params.name,
        device=torch_device(snakemake.params.device),
    )
    write_table(table, snakemake.output[0])
