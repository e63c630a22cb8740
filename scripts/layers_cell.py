"""Word sensitivity of an encoder's layers at one n, all trials."""

from wordsens.scripting import job, torch_device

with job(snakemake):
    from wordsens.experiments.layers import run_cell
    from wordsens.progress import track
    from wordsens.results import write_cell

    device = torch_device(snakemake.params.device)
    cell, inputs = snakemake.params.cell, snakemake.input
    with track(f"{cell['study']}, {cell['weights']}, n {cell['n']}", cell["trials"], "trials"):
        arrays, attributes = run_cell(cell, inputs.data, inputs.encoder, device)
    attributes |= {"device": device, "threads": snakemake.threads, "code": snakemake.params.code}
    write_cell(snakemake.output[0], arrays, attributes)
