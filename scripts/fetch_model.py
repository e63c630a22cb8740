"""The folder of one causal language model: safetensors weights and tokenizer, or a GGUF file."""

from wordsens.scripting import job

with job(snakemake):
    from wordsens.data.assets import fetch_model

    fetch_model(snakemake.params.settings, snakemake.output[0], f"models.{snakemake.params.name}")
