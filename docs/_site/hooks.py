"""Hooks of mkdocs: pages and tables that are generated from the code."""

from __future__ import annotations

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs._site import api, codes, command_line, configuration, notebooks, pictures, settings


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages: of the reference, and of the notebooks with their plots."""
    generated: dict[str, str | bytes] = {
        **api.pages(),
        **notebooks.pages(),
        **pictures.files(),
    }
    generated["reference/configuration.md"] = configuration.page()
    generated["reference/settings.md"] = settings.page()
    generated["reference/cli.md"] = command_line.page()
    for name, content in generated.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace the markers of a page by the table of exit codes and the plots of notebooks."""
    text = markdown.replace("<!-- exit codes -->", codes.table())
    return pictures.insert_pictures(text, page.file.src_uri)
