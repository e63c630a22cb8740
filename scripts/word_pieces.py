"""The word pieces of one encoder and their vectors."""

from wordsens.scripting import job

with job(snakemake):
    from wordsens.data.vocabulary import make_vocabulary

    name = f"encoders.{snakemake.wildcards.encoder}"
    made = make_vocabulary(
        snakemake.output[0], snakemake.input[0], name, code=snakemake.params.code
    )
    print(f"{name}: {len(made)} word pieces, {int(made.special.sum())} of them no words")
