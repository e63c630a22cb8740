"""The words that change the layers of the reported encoder most."""

from wordsens.scripting import job, torch_device

with job(snakemake):
    from wordsens.report.words import report_words
    from wordsens.results import write_table

    table = report_words(
        snakemake.params.study,
        snakemake.input.data,
        snakemake.input.encoder,
        encoder=snakemake.wildcards.report,
        seed=snakemake.params.seed,
        device=torch_device(snakemake.params.device),
    )
    write_table(table, snakemake.output[0])
