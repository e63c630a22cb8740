"""One figure from the tables of its sweeps."""

from pathlib import Path

from wordsens.scripting import job

with job(snakemake):
    from wordsens.figures import draw
    from wordsens.results import read_table

    tables = {Path(path).stem: read_table(path) for path in snakemake.input}
    stem = Path(snakemake.output.pdf).with_suffix("")
    draw(snakemake.params.kind, tables, snakemake.params.options, stem)
