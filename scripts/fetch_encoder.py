"""The folder of one encoder: config, safetensors weights and tokenizer."""

from wordsens.scripting import job

with job(snakemake):
    from wordsens.data.assets import fetch_encoder

    fetch_encoder(
        snakemake.params.settings, snakemake.output[0], f"encoders.{snakemake.params.name}"
    )
