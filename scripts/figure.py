"""One figure from the tables of its sweeps, and its caption."""

from pathlib import Path

from wordsens.scripting import job

with job(snakemake):
    import matplotlib

    matplotlib.use("Agg")
    from wordsens.figures import draw
    from wordsens.figures.captions import write_caption
    from wordsens.plugins import load_plugins
    from wordsens.results import read_table
    from wordsens.studies import figure_module

    load_plugins(snakemake.config.get("plugins"))
    kind, options = figure_module(snakemake.params.kind), snakemake.params.options
    tables = {Path(path).stem: read_table(path) for path in snakemake.input}
    write_caption(kind, tables, options, snakemake.output.caption)
    draw(kind, tables, options, Path(snakemake.output.pdf).with_suffix(""))
