"""The pages of a report on the user's model, with its figures and tables in one folder."""

import shutil
from pathlib import Path

from wordsens.scripting import job

with job(snakemake):
    import json

    from wordsens.data.embeddings import open_embeddings
    from wordsens.data.folders import read_asset
    from wordsens.files import replacing, write_text
    from wordsens.report.page import html, page
    from wordsens.results import read_table
    from wordsens.studies.explanation.table import explanations

    folder = Path(snakemake.output.page).parent
    for path in [*snakemake.input.figures, *snakemake.input.tables, snakemake.input.words]:
        with replacing(folder / Path(path).name) as beside:
            shutil.copyfile(path, beside)
    windows = explanations(snakemake.input.texts)[0].windows
    said = {
        "settings": snakemake.params.settings,
        "tables": {Path(path).stem: read_table(path) for path in snakemake.input.tables},
        "words": read_table(snakemake.input.words),
        "counts": json.loads(open_embeddings(snakemake.input.embeddings).attributes["counts"]),
        "shas": read_asset(snakemake.input.encoder)["weights"],
    }
    figures = {Path(path).stem: path for path in snakemake.input.figures if path.endswith(".png")}
    write_text(snakemake.output.html, html(windows=windows, figures=figures, **said))
    write_text(snakemake.output.page, page(causal=windows[0].causal, **said))
