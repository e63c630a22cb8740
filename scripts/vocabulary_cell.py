"""What any word does in a word's place at one point of a vocabulary study, all trials."""

from wordsens.scripting import job, torch_device

with job(snakemake):
    from wordsens.experiments.vocabulary import run_cell
    from wordsens.results import write_cell

    device = torch_device(snakemake.params.device)
    arrays, attributes = run_cell(
        snakemake.params.cell, snakemake.input.data, snakemake.input.vocabulary, device
    )
    attributes |= {"device": device, "threads": snakemake.threads, "code": snakemake.params.code}
    write_cell(snakemake.output[0], arrays, attributes)
