# Token embeddings of a corpus under an encoder, and the encoder's own vocabulary.


rule embed:
    input:
        texts=lambda wildcards: "results/assets/corpora/{corpus}/texts.jsonl".format(
            **cfg.datasets[wildcards.dataset].settings
        ),
        counts=lambda wildcards: "results/assets/corpora/{corpus}/counts.json".format(
            **cfg.datasets[wildcards.dataset].settings
        ),
        encoder=lambda wildcards: "results/assets/encoders/{encoder}".format(
            **cfg.datasets[wildcards.dataset].settings
        ),
    output:
        "results/embeddings/{dataset}.h5",
    log:
        "results/logs/embed/{dataset}.log",
        usage="results/benchmarks/embed/{dataset}.tsv",
    conda:
        "../../envs/wordsens.yaml"
    threads: cfg.threads
    resources:
        mem_mb=4000,
        runtime=240,
        gpu=gpus,
    params:
        name=lambda wildcards: wildcards.dataset,
        settings=lambda wildcards: cfg.datasets[wildcards.dataset].settings,
        seed=cfg.seed,
        device=cfg.device,
        code=code("embed.py"),
    script:
        "../../scripts/embed.py"


rule word_pieces:
    input:
        "results/assets/encoders/{encoder}",
    output:
        "results/assets/vocabularies/{encoder}.h5",
    log:
        "results/logs/word_pieces/{encoder}.log",
        usage="results/benchmarks/word_pieces/{encoder}.tsv",
    conda:
        "../../envs/wordsens.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        code=code("word_pieces.py"),
    script:
        "../../scripts/word_pieces.py"
