"""mkdocs hook: pages that live elsewhere in the repository (changelog, contributing, comparison results) are part of the site, too."""

import pathlib
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = pathlib.Path(__file__).resolve().parent.parent
_PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md",
          "comparisons/README.md": "comparisons/index.md", "comparisons/results/README.md": "comparisons/results/index.md",
          **{f"comparisons/results/{name}.md": f"comparisons/results/{name}.md"
             for name in ("truth", "verified", "checker-soundness", "selection")}}
_LINKS = {"results/README.md": "results/index.md", "../README.md": "../index.md", "](docs/": "](", "CHANGELOG.md": "changelog.md",
          "](../docs/": "](../", "](../../docs/": "](../../"}


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages with their links made right, and the pictures of the results."""
    for source, target in _PAGES.items():
        if not (ROOT / source).exists():
            continue
        text = (ROOT / source).read_text(encoding="utf-8")
        for wrong, right in _LINKS.items():
            text = text.replace(wrong, right)
        files.append(File.generated(config, target, content=text))
    for picture in sorted((ROOT / "comparisons" / "results").glob("*.png")):
        files.append(File.generated(config, f"comparisons/results/{picture.name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Any, **arguments: Any) -> str:
    """Links out of docs/, which work where the repository is read, lead to the copies in the site."""
    if "/" in page.file.src_uri:
        return markdown
    return (markdown.replace("](../comparisons/results/README.md", "](comparisons/results/index.md")
            .replace("](../comparisons/README.md", "](comparisons/index.md").replace("](../comparisons/", "](comparisons/")
            .replace("](../SECURITY.md", "](security.md").replace("](../CHANGELOG.md", "](changelog.md")
            .replace("](../CONTRIBUTING.md", "](contributing.md"))
