"""The command `derender`: parse, read, and, from their own modules, score, train and bench.

Turns arguments into settings. Options are in cli_options.py, errors and commands from elsewhere in cli_group.py, the
work on a list of inputs in cli_batch.py, messages in cli_report.py. The last two, and the models, are imported when a
command runs, so that `derender --help` is fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from derender import __version__, cli_options
from derender.cli_group import Commands
from derender.errors import UsageError

if TYPE_CHECKING:
    from derender.config import ParseOptions
    from derender.decode.config import DecodeConfig
    from derender.mineru.options import ModelOptions
    from derender.pipeline import Pipeline
    from derender.recognise.types import Image, Result, Task

app = typer.Typer(
    name="derender",
    cls=Commands,
    help="Reads PDFs, scans and photos and writes Markdown and JSON.",
    epilog="Start with: derender parse paper.pdf -o out",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: half the time of boxes, and [brackets] stay as written
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Entry point of the installed command."""
    app(prog_name="derender")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"derender {__version__}")
        raise typer.Exit()


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Reads PDFs, scans and photos and writes Markdown and JSON."""


def make_pipeline(options: ParseOptions) -> Pipeline:
    """The one place where `parse` gets its pipeline from."""
    from derender.pipeline import Pipeline

    return Pipeline(options)


def read_crop(image: Image, task: Task, decode: DecodeConfig, threads: int) -> Result:
    """The one place where `read` gets its reading from. image: (H, W, 3) uint8 RGB."""
    from derender.recognise import crop

    return crop.read_crop(image, task, decode=decode, threads=threads)


def read_with(model: ModelOptions, image: Image, task: Task, decode: DecodeConfig) -> Result:
    """A crop read by another model. image: (H, W, 3) uint8 RGB."""
    from derender.mineru.make import make_recogniser
    from derender.recognise.types import Request

    (result,) = make_recogniser(model, decode).recognise([Request("crop", image, task)])
    return result


@app.command(epilog=cli_options.PARSE_EPILOG)
def parse(
    inputs: cli_options.Inputs,
    out: cli_options.Out = None,
    recursive: cli_options.Recursive = False,
    pages: cli_options.Pages = None,
    formats: cli_options.Formats = None,
    stdout: cli_options.Stdout = False,
    resume: cli_options.Resume = False,
    keep_paratext: cli_options.KeepParatext = False,
    page_markers: cli_options.PageMarkers = False,
    no_join_tables: cli_options.NoJoinTables = False,
    tokens: cli_options.Tokens = False,
    trace: cli_options.Trace = False,
    mode: cli_options.Mode = cli_options.ModeChoice.auto,
    dpi: cli_options.Dpi = None,
    password: cli_options.Password = None,
    threads: cli_options.Threads = None,
    ray: cli_options.Ray = None,
    workers: cli_options.Workers = None,
    decode: cli_options.Decode = None,
    threshold: cli_options.Threshold = None,
    rule: cli_options.Rule = None,
    block: cli_options.Block = None,
    model: cli_options.Model = None,
    device: cli_options.Device = None,
    dtype: cli_options.DType = None,
    engine: cli_options.EngineOption = cli_options.EngineChoice.local,
    base_url: cli_options.BaseUrl = None,
    concurrency: cli_options.Concurrency = None,
    timeout: cli_options.Timeout = None,
    layout_prompt: cli_options.LayoutPrompt = None,
    quiet: cli_options.Quiet = False,
    verbose: cli_options.Verbose = 0,
) -> None:
    """Reads documents and writes Markdown, JSON and more."""
    from derender.cli_batch import BatchOptions, parse_formats, quiet_libraries, run_batch
    from derender.cli_report import Reporter
    from derender.config import ParseOptions
    from derender.ingest.inputs import expand_inputs

    if stdout and out is not None:
        raise UsageError("give either --out or --stdout")
    if formats is None:
        formats = "md" if stdout else cli_options.DEFAULT_FORMATS
    if ray is None and workers is not None:
        raise UsageError("--workers is for --ray")
    if ray is None and out is not None and "://" in out:
        raise UsageError(f"{out} is a URI: only --ray writes there")
    if ray is not None and stdout:
        raise UsageError("--ray writes files: leave out --stdout")
    batch = BatchOptions(
        out=None if stdout else Path(out or "out"),  # a URI is no file that is in the way
        formats=parse_formats(formats),
        resume=resume,
        keep_paratext=keep_paratext,
        page_markers=page_markers,
    )
    if (tokens or trace) and "json" not in batch.formats:
        raise UsageError("--tokens and --trace go into the JSON: add json to --format")
    if pages is not None:
        _check_pages(pages)
    other = _model_options(model, device, dtype, threads, engine, base_url, concurrency, timeout, layout_prompt)
    if other is not None and other.base_url and (decode or threshold is not None or rule or block or trace or tokens):
        raise UsageError("a server decodes in its own way: leave out the decoding options, --tokens and --trace")
    given: dict[str, Any] = {"dpi": dpi, "threads": threads}
    options = ParseOptions(
        mode=mode.value,
        pages=pages,
        password=password,
        tokens=tokens,
        join_tables=not no_join_tables,
        decode=_decode_config(_mode_for(other, decode), threshold, rule, block, trace),
        model=other,
        **{key: value for key, value in given.items() if value is not None},
    )
    if ray is not None:
        from derender.scale.command import parse_on_ray
        from derender.scale.run import ScaleOptions

        raise typer.Exit(
            parse_on_ray(
                inputs,
                out or "out",
                options,
                batch,
                ScaleOptions(ray, workers),
                recursive=recursive,
                quiet=quiet,
            )
        )
    found = expand_inputs(inputs, recursive)
    with quiet_libraries(verbose), Reporter(len(found), quiet, verbose) as report:
        try:
            code = run_batch(found, make_pipeline(options), batch, report)
        except KeyboardInterrupt:
            report.interrupted(resumable=batch.out is not None and "json" in batch.formats)
            raise typer.Exit(130) from None
    report.summary(batch.out)
    raise typer.Exit(code)


@app.command(epilog=cli_options.READ_EPILOG)
def read(
    image: cli_options.Crop,
    task: cli_options.Task = cli_options.TaskChoice.text,
    format: cli_options.Print = cli_options.ReadFormat.text,
    threads: cli_options.Threads = None,
    decode: cli_options.Decode = None,
    threshold: cli_options.Threshold = None,
    rule: cli_options.Rule = None,
    block: cli_options.Block = None,
    model: cli_options.Model = None,
    device: cli_options.Device = None,
    dtype: cli_options.DType = None,
    engine: cli_options.EngineOption = cli_options.EngineChoice.local,
    base_url: cli_options.BaseUrl = None,
    timeout: cli_options.Timeout = None,
    verbose: cli_options.Verbose = 0,
) -> None:
    """Reads one cropped picture and prints the reading, nothing else."""
    from derender.cli_batch import quiet_libraries
    from derender.cli_read import load_crop, show
    from derender.config import default_threads

    if format == "html" and task != "table":
        raise UsageError("--format html is for tables: add --task table, or take text or json")
    other = _model_options(model, device, dtype, threads, engine, base_url, None, timeout)
    if other is not None and other.base_url and (decode or threshold is not None or rule or block):
        raise UsageError("a server decodes in its own way: leave out the decoding options")
    config = _decode_config(_mode_for(other, decode), threshold, rule, block, trace=False)
    with quiet_libraries(verbose):
        if other is not None:
            result = read_with(other, load_crop(image), task.value, config)
        else:
            result = read_crop(load_crop(image), task.value, config, threads or default_threads())
    code = show(result, task.value, format.value)
    raise typer.Exit(code)


def _model_options(
    model: str | None,
    device: cli_options.DeviceChoice | None,
    dtype: cli_options.DTypeChoice | None,
    threads: int | None,
    engine: cli_options.EngineChoice,
    base_url: str | None,
    concurrency: int | None,
    timeout: float | None,
    layout_prompt: str | None = None,
) -> ModelOptions | None:
    """None where derender-compact reads. Raises UsageError where an option has no effect."""
    from derender.mineru.options import ModelOptions

    if engine == "openai" and base_url is None:
        raise UsageError("--engine openai needs --base-url: the address of the server")
    if engine != "openai" and (base_url or concurrency or timeout):
        raise UsageError("--base-url, --concurrency and --timeout are for a server: add --engine openai")
    if engine != "openai" and model is None:
        if device or dtype or layout_prompt:
            raise UsageError("--device, --dtype and --layout-prompt are for --model, and none is given")
        return None
    given: dict[str, Any] = {"concurrency": concurrency, "timeout": timeout, "layout_prompt": layout_prompt}
    return ModelOptions(
        model,
        device.value if device else None,
        dtype.value if dtype else None,
        threads,
        base_url,
        **{key: value for key, value in given.items() if value is not None},
    )


def _mode_for(model: ModelOptions | None, decode: cli_options.DecodeChoice | None) -> cli_options.DecodeChoice | None:
    """MinerU-Diffusion knows blocks only."""
    return cli_options.DecodeChoice.block if model is not None and decode is None else decode


def _decode_config(
    decode: cli_options.DecodeChoice | None, threshold: float | None, rule: str | None, block: int | None, trace: bool
) -> DecodeConfig:
    """Only what was given; the rest keeps DecodeConfig's defaults. Raises UsageError where an option has no effect."""
    from derender.decode.config import DecodeConfig

    given: dict[str, Any] = {"trace": trace}
    if decode is not None:
        given["mode"] = decode.value
    if threshold is not None and rule is not None:
        raise UsageError("--threshold is short for --rule threshold:P: give one of them")
    if threshold is not None:
        rule = f"threshold:{threshold}"
    if rule is not None:
        if decode in ("exact", "ar"):
            raise UsageError(f"--decode {decode} has no commit rule: leave out --threshold and --rule")
        given["rule"] = rule
    if block is not None:
        if decode == "ar":
            raise UsageError("--decode ar reads one token at a time: leave out --block")
        given["block"] = given["window"] = block
    return DecodeConfig(**given)


def _check_pages(pages: str) -> None:
    """Raises UsageError for what is no list of pages, once and not for each input."""
    from derender.ingest.source import page_ranges

    page_ranges(pages)


if __name__ == "__main__":
    main()
