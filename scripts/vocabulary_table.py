"""One vocabulary study's cells as a tidy table, and its top substitutions as a table and a page."""

from wordsens.scripting import job

with job(snakemake):
    from wordsens.experiments.vocabulary_table import page, words_table
    from wordsens.files import write_text
    from wordsens.results import cells_table, trials_table, write_html, write_table

    write_table(trials_table(snakemake.input), snakemake.output.table)
    write_html(cells_table(snakemake.input), snakemake.output.provenance)
    words = words_table(snakemake.input)
    write_table(words, snakemake.output.words)
    write_text(snakemake.output.page, page(words))
