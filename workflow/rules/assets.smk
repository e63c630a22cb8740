# Texts, encoders and language models, each fetched or linked once.


rule fetch_corpus:
    input:
        lambda wildcards: ancient(cfg.corpora[wildcards.corpus].inputs),
    output:
        texts="results/assets/corpora/{corpus}/texts.jsonl",
        counts="results/assets/corpora/{corpus}/counts.json",
    log:
        "results/logs/fetch_corpus/{corpus}.log",
        usage="results/benchmarks/fetch_corpus/{corpus}.tsv",
    conda:
        "../../envs/wordsens.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        name=lambda wildcards: wildcards.corpus,
        settings=lambda wildcards: cfg.corpora[wildcards.corpus].settings,
        content=lambda wildcards: cfg.corpora[wildcards.corpus].content,
        code=code("fetch_corpus.py"),
    script:
        "../../scripts/fetch_corpus.py"


rule fetch_encoder:
    input:
        lambda wildcards: ancient(cfg.encoders[wildcards.encoder].inputs),
    output:
        directory("results/assets/encoders/{encoder}"),
    log:
        "results/logs/fetch_encoder/{encoder}.log",
        usage="results/benchmarks/fetch_encoder/{encoder}.tsv",
    conda:
        "../../envs/wordsens.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        name=lambda wildcards: wildcards.encoder,
        settings=lambda wildcards: cfg.encoders[wildcards.encoder].settings,
        content=lambda wildcards: cfg.encoders[wildcards.encoder].content,
        code=code("fetch_encoder.py"),
    script:
        "../../scripts/fetch_encoder.py"


rule fetch_model:
    input:
        lambda wildcards: ancient(cfg.models[wildcards.model].inputs),
    output:
        directory("results/assets/models/{model}"),
    log:
        "results/logs/fetch_model/{model}.log",
        usage="results/benchmarks/fetch_model/{model}.tsv",
    conda:
        "../../envs/wordsens.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=240,
    params:
        name=lambda wildcards: wildcards.model,
        settings=lambda wildcards: cfg.models[wildcards.model].settings,
        content=lambda wildcards: cfg.models[wildcards.model].content,
        code=code("fetch_model.py"),
    script:
        "../../scripts/fetch_model.py"
