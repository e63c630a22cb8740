"""What a Δ that attracts attention does to one text, against noise of its length."""

from wordsens.scripting import job, torch_device

with job(snakemake):
    from wordsens.experiments.trained import attraction_entry
    from wordsens.results import write_table

    table = attraction_entry(
        snakemake.params.settings,
        snakemake.input.encoder,
        snakemake.input.data[0] if snakemake.input.data else None,
        name=snakemake.params.name,
        seed=snakemake.params.seed,
        device=torch_device(snakemake.params.device),
    )
    write_table(table, snakemake.output[0])
