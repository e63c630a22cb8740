"""Word sensitivity at one point of a sweep, all trials."""

from wordsens.scripting import job, torch_device

with job(snakemake):
    from wordsens.experiments.sensitivity import run_cell
    from wordsens.progress import track
    from wordsens.results import write_cell

    data = snakemake.input[0] if snakemake.input else None
    device = torch_device(snakemake.params.device)
    cell = snakemake.params.cell
    with track(f"{cell['sweep']}, n {cell['n']}, d {cell['d']}", cell["trials"], "trials"):
        arrays, attributes = run_cell(cell, data, device)
    attributes |= {"device": device, "threads": snakemake.threads, "code": snakemake.params.code}
    write_cell(snakemake.output[0], arrays, attributes)
