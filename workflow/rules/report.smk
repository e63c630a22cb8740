# A report on the user's own model: --config encoder=PATH texts=FILE adds its entries.


rule model_report:
    input:
        report_page,
    localrule: True


rule report_words:
    input:
        data="results/embeddings/{report}.h5",
        encoder=lambda wildcards: "results/assets/encoders/{encoder}".format(
            **cfg.datasets[wildcards.report].settings
        ),
    output:
        "results/tables/{report}_words.csv",
    log:
        "results/logs/report_words/{report}.log",
        usage="results/benchmarks/report_words/{report}.tsv",
    conda:
        "../../envs/wordsens.yaml"
    threads: cfg.threads
    resources:
        mem_mb=4000,
        runtime=120,
        gpu=gpus,
    params:
        study=lambda wildcards: report_study(wildcards.report),
        seed=cfg.seed,
        device=cfg.device,
        code=code("report_words.py"),
    script:
        "../../scripts/report_words.py"


rule write_report:
    input:
        figures=expand(
            "results/figures/{figure}.{ending}",
            figure=report_entries(),
            ending=["png", "pdf"],
        ),
        tables=expand("results/tables/{entry}.csv", entry=report_tables()),
        texts=lambda wildcards: cfg.study(f"{wildcards.report}_explanation").paths(),
        words="results/tables/{report}_words.csv",
        embeddings="results/embeddings/{report}.h5",
        encoder=lambda wildcards: "results/assets/encoders/{encoder}".format(
            **cfg.datasets[wildcards.report].settings
        ),
    output:
        page=report(
            "results/model_report/{report}/report.md",
            caption="../report/model.rst",
            category="Model report",
            labels={"report": "{report}", "format": "Markdown"},
        ),
        html=report(
            "results/model_report/{report}/report.html",
            caption="../report/model.rst",
            category="Model report",
            labels={"report": "{report}", "format": "page"},
        ),
        files=expand(
            "results/model_report/{{report}}/{figure}.{ending}",
            figure=report_entries(),
            ending=["png", "pdf"],
        ),
        tables=expand(
            "results/model_report/{{report}}/{entry}.csv", entry=report_tables()
        ),
        words="results/model_report/{report}/{report}_words.csv",
    log:
        "results/logs/write_report/{report}.log",
        usage="results/benchmarks/write_report/{report}.tsv",
    conda:
        "../../envs/wordsens.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        settings={key: config.get(key) for key in ("encoder", "texts")},
        code=code("write_report.py"),
    script:
        "../../scripts/write_report.py"
