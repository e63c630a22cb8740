# Discrete words: what any word of the vocabulary does in a word's place.


rule word_pieces:
    input:
        "results/assets/encoders/{encoder}",
    output:
        "results/assets/vocabularies/{encoder}.h5",
    log:
        "results/logs/word_pieces/{encoder}.log",
    benchmark:
        "results/benchmarks/word_pieces/{encoder}.tsv"
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


rule vocabulary_cell:
    input:
        data=lambda wildcards: "results/embeddings/{dataset}.h5".format(
            **cfg.vocabulary[wildcards.vocabulary].shared
        ),
        vocabulary=lambda wildcards: "results/assets/vocabularies/{encoder}.h5".format(
            **cfg.datasets[cfg.vocabulary[wildcards.vocabulary].dataset].settings
        ),
    output:
        f"results/vocabulary/{{vocabulary}}/{vocabulary_pattern}.h5",
    log:
        f"results/logs/vocabulary_cell/{{vocabulary}}/{vocabulary_pattern}.log",
    benchmark:
        f"results/benchmarks/vocabulary_cell/{{vocabulary}}/{vocabulary_pattern}.tsv"
    conda:
        "../../envs/wordsens.yaml"
    threads: cfg.threads
    resources:
        mem_mb=discrete_mem_mb,
        runtime=lambda wildcards, attempt: 120 * attempt,
        gpu=gpus,
    params:
        cell=discrete_cell,
        device=cfg.device,
        code=lambda wildcards: code(
            "vocabulary_cell.py", cfg.vocabulary[wildcards.vocabulary].shared["map"]
        ),
    script:
        "../../scripts/vocabulary_cell.py"


rule vocabulary_table:
    input:
        discrete_cells,
    output:
        table=report(
            "results/tables/{vocabulary}.csv",
            caption="../report/table.rst",
            category="Tables",
            labels={"table": "{vocabulary}"},
        ),
        provenance=report(
            "results/provenance/{vocabulary}.html",
            caption="../report/provenance.rst",
            category="Provenance",
            labels={"cells of": "{vocabulary}"},
        ),
        words="results/tables/substitutions/{vocabulary}.csv",
        page=report(
            "results/tables/substitutions/{vocabulary}.md",
            caption="../report/substitutions.rst",
            category="Discrete words",
            labels={"figure": "{vocabulary}", "format": "substitutions"},
        ),
    log:
        "results/logs/vocabulary_table/{vocabulary}.log",
    benchmark:
        "results/benchmarks/vocabulary_table/{vocabulary}.tsv"
    conda:
        "../../envs/wordsens.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        code=code("vocabulary_table.py"),
    script:
        "../../scripts/vocabulary_table.py"
