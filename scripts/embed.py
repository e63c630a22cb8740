"""Token embeddings of one dataset; goes on from where a killed job stopped."""

from wordsens.scripting import job, torch_device

with job(snakemake):
    from wordsens.data.embeddings import make_embeddings

    make_embeddings(
        snakemake.output[0],
        snakemake.input.texts,
        snakemake.input.encoder,
        snakemake.params.settings,
        name=snakemake.params.name,
        seed=snakemake.params.seed,
        device=torch_device(snakemake.params.device),
        code=snakemake.params.code,
        counts=snakemake.input.counts,
    )
