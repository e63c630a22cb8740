# A report on the user's own encoder: --config encoder=PATH texts=FILE adds its entries.


def report_entries():
    """The figures of the report, in its order; nothing without an encoder."""
    names = [f"{cfg.report}_{kind}" for kind in REPORT_KINDS]
    return [name for name in names if name in cfg.figures] if cfg.report else []


def report_study(report):
    """The lengths and the dataset of the report's search of layers."""
    study = cfg.layers[f"{report}_layers"]
    return {"dataset": study.dataset, "n": study.axes["n"]}


def report_page(wildcards):
    """The page to make; who asks for it without an encoder is told how."""
    if cfg.report is None:
        # Any other exception in an input function is printed with a traceback.
        print("model_report needs --config encoder=PATH texts=FILE", file=sys.stderr)
        raise SystemExit(1)
    return f"results/model_report/{cfg.report}/report.md"


rule model_report:
    input:
        report_page,
    localrule: True


rule report_words:
    input:
        data="results/embeddings/{report}.h5",
        encoder="results/assets/encoders/{report}",
    output:
        "results/tables/{report}_words.csv",
    log:
        "results/logs/report_words/{report}.log",
    benchmark:
        "results/benchmarks/report_words/{report}.tsv"
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
        tables=expand("results/tables/{figure}.csv", figure=report_entries()),
        words="results/tables/{report}_words.csv",
        embeddings="results/embeddings/{report}.h5",
        encoder="results/assets/encoders/{report}",
    output:
        page=report(
            "results/model_report/{report}/report.md",
            caption="../report/model.rst",
            category="Model report",
        ),
        files=expand(
            "results/model_report/{{report}}/{figure}.{ending}",
            figure=report_entries(),
            ending=["png", "pdf", "csv"],
        ),
        words="results/model_report/{report}/{report}_words.csv",
    log:
        "results/logs/write_report/{report}.log",
    benchmark:
        "results/benchmarks/write_report/{report}.tsv"
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
