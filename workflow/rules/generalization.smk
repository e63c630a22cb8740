# Generalization on a changed word, one job per cell with all its trials, and one table per study.


rule generalization_cell:
    input:
        study_data,
    output:
        f"results/generalization/{{study}}/{study_pattern}.h5",
    log:
        f"results/logs/generalization/{{study}}/{study_pattern}.log",
    benchmark:
        f"results/benchmarks/generalization/{{study}}/{study_pattern}.tsv"
    conda:
        "../../envs/wordsens.yaml"
    threads: cfg.threads
    resources:
        mem_mb=study_mem_mb,
        runtime=lambda wildcards, attempt: 60 * attempt,
        gpu=gpus,
    params:
        cell=study_cell,
        device=cfg.device,
        code=lambda wildcards: code(
            "generalization_cell.py", cfg.generalization[wildcards.study].shared["map"]
        ),
    script:
        "../../scripts/generalization_cell.py"


rule generalization_table:
    input:
        study_cells,
    output:
        table=report(
            "results/tables/{study}.csv",
            caption="../report/table.rst",
            category="Tables",
            labels={"table": "{study}"},
        ),
        provenance=report(
            "results/provenance/{study}.html",
            caption="../report/provenance.rst",
            category="Provenance",
            labels={"cells of": "{study}"},
        ),
    log:
        "results/logs/generalization_table/{study}.log",
    benchmark:
        "results/benchmarks/generalization_table/{study}.tsv"
    conda:
        "../../envs/wordsens.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        code=code("generalization_table.py"),
    script:
        "../../scripts/generalization_table.py"
