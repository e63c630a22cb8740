# Trained encoders and language models: what a changed word does to layers, attention and answers.


rule layers_cell:
    input:
        data=lambda wildcards: "results/embeddings/{dataset}.h5".format(
            **cfg.layers[wildcards.layers].shared
        ),
        encoder=lambda wildcards: f"results/assets/encoders/{layers_encoder(wildcards)}",
    output:
        f"results/layers/{{layers}}/{layers_pattern}.h5",
    log:
        f"results/logs/layers_cell/{{layers}}/{layers_pattern}.log",
    benchmark:
        f"results/benchmarks/layers_cell/{{layers}}/{layers_pattern}.tsv"
    conda:
        "../../envs/wordsens.yaml"
    threads: cfg.threads
    resources:
        mem_mb=4000,
        runtime=lambda wildcards, attempt: 120 * attempt,
        gpu=gpus,
    params:
        cell=layers_cell,
        device=cfg.device,
        code=code("layers_cell.py"),
    script:
        "../../scripts/layers_cell.py"


rule layers_table:
    input:
        layers_cells,
    output:
        table=report(
            "results/tables/{layers}.csv",
            caption="../report/table.rst",
            category="Tables",
            labels={"table": "{layers}"},
        ),
        provenance=report(
            "results/provenance/{layers}.html",
            caption="../report/provenance.rst",
            category="Provenance",
            labels={"cells of": "{layers}"},
        ),
    log:
        "results/logs/layers_table/{layers}.log",
    benchmark:
        "results/benchmarks/layers_table/{layers}.tsv"
    conda:
        "../../envs/wordsens.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        code=code("layers_table.py"),
    script:
        "../../scripts/layers_table.py"


rule attraction_table:
    input:
        encoder=lambda wildcards: "results/assets/encoders/{encoder}".format(
            **cfg.attraction[wildcards.attraction]
        ),
        data=attraction_data,
    output:
        report(
            "results/tables/{attraction}.csv",
            caption="../report/table.rst",
            category="Tables",
            labels={"table": "{attraction}"},
        ),
    log:
        "results/logs/attraction_table/{attraction}.log",
    benchmark:
        "results/benchmarks/attraction_table/{attraction}.tsv"
    conda:
        "../../envs/wordsens.yaml"
    threads: cfg.threads
    resources:
        mem_mb=4000,
        runtime=60,
        gpu=gpus,
    params:
        settings=lambda wildcards: cfg.attraction[wildcards.attraction],
        name=lambda wildcards: wildcards.attraction,
        seed=cfg.seed,
        device=cfg.device,
        code=code("attraction_table.py"),
    script:
        "../../scripts/attraction_table.py"


rule attention_table:
    input:
        lambda wildcards: "results/assets/encoders/{encoder}".format(
            **cfg.attention[wildcards.attention]
        ),
    output:
        report(
            "results/tables/{attention}.csv",
            caption="../report/table.rst",
            category="Tables",
            labels={"table": "{attention}"},
        ),
    log:
        "results/logs/attention_table/{attention}.log",
    benchmark:
        "results/benchmarks/attention_table/{attention}.tsv"
    conda:
        "../../envs/wordsens.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        settings=lambda wildcards: cfg.attention[wildcards.attention],
        name=lambda wildcards: wildcards.attention,
        code=code("attention_table.py"),
    script:
        "../../scripts/attention_table.py"


rule prompts_table:
    input:
        lambda wildcards: "results/assets/models/{model}".format(
            **cfg.prompts[wildcards.prompts]
        ),
    output:
        report(
            "results/tables/{prompts}.csv",
            caption="../report/table.rst",
            category="Tables",
            labels={"table": "{prompts}"},
        ),
    log:
        "results/logs/prompts_table/{prompts}.log",
    benchmark:
        "results/benchmarks/prompts_table/{prompts}.tsv"
    conda:
        "../../envs/wordsens.yaml"
    threads: cfg.threads
    resources:
        mem_mb=8000,
        runtime=120,
        gpu=gpus,
    params:
        settings=lambda wildcards: cfg.prompts[wildcards.prompts],
        name=lambda wildcards: wildcards.prompts,
        device=cfg.device,
        code=code("prompts_table.py"),
    script:
        "../../scripts/prompts_table.py"
