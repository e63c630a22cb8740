"""What any word does in a word's place at one point of a vocabulary study, all trials."""

from wordsens.scripting import job, torch_device

with job(snakemake):
    from wordsens.experiments.vocabulary import run_cell
    from wordsens.progress import track
    from wordsens.results import write_cell

    device = torch_device(snakemake.params.device)
    cell, inputs = snakemake.params.cell, snakemake.input
    with track(f"{cell['study']}, n {cell['n']}, d {cell['d']}", cell["trials"], "trials"):
        arrays, attributes = run_cell(cell, inputs.data, inputs.vocabulary, device)
    attributes |= {"device": device, "threads": snakemake.threads, "code": snakemake.params.code}
    write_cell(snakemake.output[0], arrays, attributes)
