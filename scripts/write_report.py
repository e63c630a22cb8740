"""The page of a report on the user's encoder, with its figures and tables in one folder."""

import shutil
from pathlib import Path

from wordsens.scripting import job

with job(snakemake):
    import json

    from wordsens.data.embeddings import open_embeddings
    from wordsens.data.folders import read_asset
    from wordsens.files import replacing, write_text
    from wordsens.report.page import page
    from wordsens.results import read_table

    folder = Path(snakemake.output.page).parent
    for path in [*snakemake.input.figures, *snakemake.input.tables, snakemake.input.words]:
        with replacing(folder / Path(path).name) as beside:
            shutil.copyfile(path, beside)
    text = page(
        snakemake.params.settings,
        {Path(path).stem: read_table(path) for path in snakemake.input.tables},
        read_table(snakemake.input.words),
        json.loads(open_embeddings(snakemake.input.embeddings).attributes["counts"]),
        read_asset(snakemake.input.encoder)["weights"],
    )
    write_text(snakemake.output.page, text)
