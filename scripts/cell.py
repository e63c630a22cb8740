"""One cell of a study, all its trials."""

from wordsens.scripting import job, torch_device

with job(snakemake, patient=True):
    from wordsens.plugins import load_plugins
    from wordsens.progress import track
    from wordsens.results import write_cell
    from wordsens.studies import kind_named

    load_plugins(snakemake.config.get("plugins"))
    study, cell = kind_named(snakemake.params.kind), snakemake.params.cell
    device = torch_device(snakemake.params.device)
    at = ", ".join(f"{axis} {cell[axis]}" for axis in study.axes)
    with track(f"{cell[study.role]}, {at}", cell.get("trials", 1), "trials"):
        arrays, attributes = study.part("cell").run(cell, dict(snakemake.input.items()), device)
    attributes |= {"device": device, "threads": snakemake.threads, "code": snakemake.params.code}
    write_cell(snakemake.output[0], arrays, attributes)
