#!/usr/bin/python3
"""Tests the documentation: its site builds, links and anchors exist, and its pages and messages
keep the limits and words of the project (tools/figures/messages)."""
import html
import os
import pathlib
import re
import shutil
import subprocess
import sys

import cases

SOURCE = pathlib.Path(os.environ.get("srcdir", ".")).resolve()
LIMIT = 300  # seconds: ends a test that hangs
WORDS, README_LINES, COLUMNS, PARAGRAPH, CELL = 55000, 170, 100, 80, 40


def pages():
    return [SOURCE / "README.md", *sorted((SOURCE / "docs").glob("**/*.md"))]


def test_the_site(directory):
    for name in "mandoc", "mkdocs":  # a test installs nothing
        if not shutil.which(name):
            cases.skip(f"needs {name}")
    site = directory / "site"
    built = subprocess.run(["sh", SOURCE / "tools" / "docs", site], capture_output=True, text=True,
                           timeout=LIMIT, check=False)
    assert built.returncode == 0, built.stderr
    texts = {path: path.read_text(encoding="utf-8") for path in site.glob("**/*.html") if path.name != "404.html"}
    anchors = {path: set(re.findall(r'\b(?:id|name)="([^"]+)"', text)) for path, text in texts.items()}
    assert len(texts) >= len(pages()) + 15, len(texts)  # the manuals, too
    broken = []
    for path, text in texts.items():
        assert not re.search(r'<(?:script|link)[^>]*(?:src|href)="(?:https?:)?//', text), path  # works without a network
        for link in re.findall(r'(?:href|src)="([^"]+)"', text):
            if re.match(r"[a-z]+:", link):
                continue
            target, _, anchor = html.unescape(link).partition("#")
            found = (path.parent / target).resolve() if target else path
            if not found.exists() or (anchor and found in anchors and anchor not in anchors[found]):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert not broken, "\n".join(sorted(set(broken)))
    assert '"checkpoint' in (site / "search" / "search_index.json").read_text(encoding="utf-8").replace(" ", '"')
    again = subprocess.run(["sh", SOURCE / "tools" / "docs", SOURCE], capture_output=True, text=True,
                           timeout=LIMIT, check=False)
    assert again.returncode != 0 and "not empty" in again.stderr, again  # overwrites no other directory


def paragraphs(text):
    """(line, text) of each paragraph and item of a list, without code and tables."""
    code, block, start = False, [], 0
    for number, row in enumerate(text.splitlines() + [""], 1):
        fence = row.lstrip().startswith("```")
        if fence or code or not row.strip() or re.match(r"\s*([-*|#>]|\d+\.) ", row) or row.startswith("|"):
            if block:
                yield start, " ".join(block)
            block = []
        code = code != fence
        if not (fence or code or row.startswith(("|", "#")) or not row.strip()):
            start = start if block else number
            block.append(row.strip())


def test_limits():
    wrong, words = [], 0
    for page in pages():
        text, name = page.read_text(encoding="utf-8"), page.relative_to(SOURCE)
        words += len(text.split())
        for number, row in enumerate(text.splitlines(), 1):
            if len(row) > COLUMNS and not row.startswith("|") and len(row.split()) > 1 and "](" not in row:
                wrong.append(f"{name}:{number}: {len(row)} columns, expected at most {COLUMNS}")
            if row.startswith("|"):
                wrong += [f"{name}:{number}: a cell of {len(cell.split())} words, expected at most {CELL}"
                          for cell in row.split("|") if len(cell.split()) > CELL]
        wrong += [f"{name}:{line}: a paragraph of {len(block.split())} words, expected at most {PARAGRAPH}"
                  for line, block in paragraphs(text) if len(block.split()) > PARAGRAPH]
    lines = len((SOURCE / "README.md").read_text(encoding="utf-8").splitlines())
    if lines > README_LINES:
        wrong.append(f"README.md: {lines} lines, expected at most {README_LINES}")
    if words > WORDS:
        wrong.append(f"pages: {words} words, expected at most {WORDS}")
    assert not wrong, "\n".join(wrong)


def test_words():
    if not (SOURCE / ".git").exists():
        cases.skip("the list of messages requires a git clone")
    listed = subprocess.run([sys.executable, SOURCE / "tools/figures/messages", "--refused"],
                            capture_output=True, text=True, timeout=LIMIT, check=False)
    assert listed.returncode == 0 and not listed.stdout, listed.stdout + listed.stderr


cases.run(globals())
