"""What mkdocs calls: pages and tables made from the code, so that nothing is said twice."""

from __future__ import annotations

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs._site import api, codes, configuration, pictures


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the API and of the configuration, and what the notebooks have drawn."""
    made: dict[str, str | bytes] = {**api.pages(), **pictures.files()}
    made["reference/configuration.md"] = configuration.page()
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the table of exit codes and the notebooks' pictures where a page asks for them."""
    told = markdown.replace("<!-- exit codes -->", codes.table())
    return pictures.shown(told, page.file.src_uri)
