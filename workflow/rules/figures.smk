# Figures from tables; each figure's name is a target.


rule draw_figure:
    input:
        lambda wildcards: expand(
            "results/tables/{sweep}.csv", sweep=cfg.figures[wildcards.figure].sweeps
        ),
    output:
        pdf="results/figures/{figure}.pdf",
        png="results/figures/{figure}.png",
        csv="results/figures/{figure}.csv",
        caption="results/figures/{figure}.rst",
    log:
        "results/logs/draw_figure/{figure}.log",
        usage="results/benchmarks/draw_figure/{figure}.tsv",
    group:
        "figures"
    conda:
        "../../envs/wordsens.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        kind=lambda wildcards: cfg.figures[wildcards.figure].kind,
        options=lambda wildcards: cfg.figures[wildcards.figure].options,
        code=lambda wildcards: drawing(cfg.figures[wildcards.figure].kind),
    script:
        "../../scripts/figure.py"


for figure in cfg.figures.values():

    rule:
        name:
            figure.name
        input:
            shown(figure),
        localrule: True


for target in targets():

    rule:
        name:
            target
        input:
            [shown(figure) for figure in together(target)],
        localrule: True
