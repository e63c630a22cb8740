# Word sensitivity, one job per cell with all its trials, and one table per sweep.


rule sensitivity_cell:
    input:
        cell_data,
    output:
        f"results/sensitivity/{{sweep}}/{cell_pattern}.h5",
    log:
        f"results/logs/sensitivity/{{sweep}}/{cell_pattern}.log",
    benchmark:
        f"results/benchmarks/sensitivity/{{sweep}}/{cell_pattern}.tsv"
    conda:
        "../../envs/wordsens.yaml"
    threads: cfg.threads
    resources:
        mem_mb=cell_mem_mb,
        runtime=lambda wildcards, attempt: 60 * attempt,
        gpu=gpus,
    params:
        cell=cell,
        device=cfg.device,
        code=lambda wildcards: code(
            "sensitivity_cell.py", cfg.sweeps[wildcards.sweep].shared["map"]
        ),
    script:
        "../../scripts/sensitivity_cell.py"


rule sweep_table:
    input:
        cells,
    output:
        table=report(
            "results/tables/{sweep}.csv",
            caption="../report/table.rst",
            category="Tables",
            labels={"table": "{sweep}"},
        ),
        provenance=report(
            "results/provenance/{sweep}.html",
            caption="../report/provenance.rst",
            category="Provenance",
            labels={"cells of": "{sweep}"},
        ),
    log:
        "results/logs/sweep_table/{sweep}.log",
    benchmark:
        "results/benchmarks/sweep_table/{sweep}.tsv"
    conda:
        "../../envs/wordsens.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        code=code("sweep_table.py"),
    script:
        "../../scripts/sweep_table.py"
