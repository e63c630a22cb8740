"""One figure from the tables of its sweeps, and its caption."""

from pathlib import Path

from wordsens.scripting import job

with job(snakemake):
    from wordsens.figures import draw
    from wordsens.figures.captions import write_caption
    from wordsens.results import read_table

    tables = {Path(path).stem: read_table(path) for path in snakemake.input}
    kind, options = snakemake.params.kind, snakemake.params.options
    write_caption(kind, tables, options, snakemake.output.caption)
    draw(kind, tables, options, Path(snakemake.output.pdf).with_suffix(""))
