"""One figure from the tables of its sweeps."""

from pathlib import Path

from wordsens.scripting import job

with job(snakemake):
    import pandas as pd

    from wordsens.figures import draw

    tables = {Path(path).stem: pd.read_csv(path) for path in snakemake.input}
    stem = Path(snakemake.output.pdf).with_suffix("")
    draw(snakemake.params.kind, tables, snakemake.params.options, stem)
