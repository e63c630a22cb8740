"""Texts of one corpus, labelled ±1, and their counts."""

from wordsens.scripting import job

with job(snakemake):
    from wordsens.data.corpora import make_corpus

    name = snakemake.params.name
    counts = make_corpus(
        snakemake.params.settings,
        snakemake.output.texts,
        snakemake.output.counts,
        f"corpora.{name}",
    )
    shown = {what: value for what, value in counts.items() if what != "sha256"}
    print(f"{name}: " + ", ".join(f"{value} {what}" for what, value in shown.items()))
