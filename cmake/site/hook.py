"""Makes the site of mkdocs.yml from the repository as it is.

- The front page is README.md of the root. The navigation has the groups and the order of docs/README.md; a document
  that docs/README.md does not name is an error. CHANGELOG.md and the READMEs of examples/ are pages too.
- A link to another file of the repository becomes the link's text and the path, because the site has no sources.
- Headings have the anchors that web services for git give them.
- Markdown that Python-Markdown reads differently is rewritten: code and text inside list items, `\\|` in tables.
- The search index is also written as a script, which pages can load that are opened as files.
"""
import glob
import os
import posixpath
import re

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LINK = re.compile(r"(?<!\!)\[((?:[^\[\]`]|`[^`]*`)*)\]\(([^() ]+)\)")
IMAGE = re.compile(r"(!\[[^\]]*\]\()([^() ]+)\)")
pages = {}  # path in the repository -> page of the site
sources = {}  # page of the site -> path in the repository


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def anchor(text, separator):
    """The anchor of a heading, as tests/docs/links.cmake makes it."""
    return re.sub(r"[^a-z0-9 _-]", "", text.lower()).replace(" ", separator)


def find_pages():
    for path in sorted(glob.glob("docs/**/*.md", root_dir=ROOT, recursive=True)):
        pages[path] = path[len("docs/"):]
    for path in sorted(glob.glob("examples/*/README.md", root_dir=ROOT)):
        pages[path] = path[: -len("/README.md")] + ".md"
    pages.update({"README.md": "index.md", "docs/README.md": "documents.md", "CHANGELOG.md": "changelog.md"})
    sources.update({page: path for path, page in pages.items()})


def on_config(config):
    find_pages()
    config["mdx_configs"]["toc"] = {"slugify": anchor, "permalink": "#"}
    navigation = [{"Quartermaster": "index.md"}, {"Documents": "documents.md"}]
    placed = {"index.md", "documents.md"}

    def place(page, group):
        if page not in placed:
            placed.add(page)
            group.append(page)

    for section in re.split(r"^## ", read("docs/README.md"), flags=re.M)[1:]:
        title, text = section.split("\n", 1)
        group = []
        for _, target in LINK.findall(text):
            path = posixpath.normpath(posixpath.join("docs", target.split("#")[0]))
            if path in pages:
                place(pages[path], group)
            elif os.path.isdir(os.path.join(ROOT, path)):
                folder = posixpath.basename(path)
                inner = []
                for page in sorted(page for page in sources if page.startswith(folder + "/")):
                    place(page, inner)
                if inner:
                    group.append({folder.capitalize(): inner})
        if group:
            navigation.append({title: group})
    examples = [page for page in sources if page.startswith("examples/")]
    navigation.append({"Examples": [page for page in examples if page not in placed]})
    missing = set(sources) - placed - set(examples)
    if missing:
        raise PluginError(f"docs/README.md does not name {', '.join(sorted(missing))}")
    config["nav"] = navigation
    return config


def on_files(files, config):
    for file in list(files):
        if file.src_uri in ("Doxyfile", "README.md"):
            files.remove(file)
    for path, page in pages.items():
        if files.get_file_from_path(page) is None:
            file = File(page, config["docs_dir"], config["site_dir"], config["use_directory_urls"])
            file.abs_src_path = os.path.join(ROOT, path)
            files.append(file)
    return files


def rewrite_link(match, path, page):
    text, target = match.groups()
    if re.match(r"[a-z]+:|#", target):
        return match.group(0)
    target, hash_sign, heading = target.partition("#")
    to = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if to in pages:
        return f"[{text}]({posixpath.relpath(pages[to], posixpath.dirname(page) or '.')}{hash_sign}{heading})"
    if to.startswith("docs/") and os.path.isfile(os.path.join(ROOT, to)):
        return f"[{text}]({posixpath.relpath(to[len('docs/'):], posixpath.dirname(page) or '.')})"
    if not os.path.exists(os.path.join(ROOT, to)):
        raise PluginError(f"{path}: no {target}")
    named = re.search(r"[`./]", text) and to.endswith(text.strip("`/"))
    return f"`{to}`" if named else f"{text} (`{to}`)"


def rewrite_lists(lines):
    """Python-Markdown wants four blanks before the text of a list's item, and blanks instead of fences in it."""
    out = []
    item = 0  # the indentation of the current item's text, 0 outside of lists
    loose = False  # whether an item of the current list has several paragraphs
    fence = None  # the indentation of the fence of the current block of code
    previous = ""
    for line in lines:
        indented = len(line) - len(line.lstrip())
        if fence is not None:
            if line.strip() == "```":
                out.append("" if fence else line)
                fence = None
            else:
                out.append(" " * 8 + line[fence:] if fence and line.strip() else line)
            continue
        if line.lstrip().startswith("```"):
            fence = indented if item and indented >= item else 0
            if not fence:
                item = 0
                out.append(line)
            elif out and out[-1]:
                out.append("")
            continue
        marker = re.match(r"( *)([-*]|[0-9]+\.) +", line)
        if marker and not (previous.strip() and not item):
            if indented == 0 and loose and previous.strip():
                out.append("")
            loose = loose and item > 0
            item = len(marker.group(0))
            line = marker.group(0).rstrip().ljust(4) + line[item:] if indented == 0 else " " * 4 + line.lstrip()
        elif line.strip() and item and indented >= item:
            loose = loose or not previous.strip()
            line = " " * 4 + line[item:]
        elif line.strip() and item and not previous.strip():
            item = 0
        out.append(line)
        previous = line
    return out


def rewrite_row(match):
    return re.sub(r"`[^`]*`", lambda code: code.group(0).replace("\\|", "|"), match.group(0))


def rewrite_image(match, path, page):
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), match.group(2)))
    return f"{match.group(1)}{posixpath.relpath(target, posixpath.join('docs', posixpath.dirname(page)))})"


def on_page_markdown(markdown, page, config, files):
    page = page.file.src_uri
    path = sources[page]
    text = "\n".join(rewrite_lists(markdown.split("\n")))
    pieces = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    for i in range(0, len(pieces), 2):  # the pieces between fences: code has no links
        pieces[i] = LINK.sub(lambda match: rewrite_link(match, path, page), pieces[i])
        pieces[i] = re.sub(r"^\|.*$", rewrite_row, pieces[i], flags=re.M)
        pieces[i] = IMAGE.sub(lambda match: rewrite_image(match, path, page), pieces[i])
    return "".join(pieces)


def on_post_build(config):
    search = os.path.join(config["site_dir"], "search")
    with open(os.path.join(search, "search_index.json"), encoding="utf-8") as file:
        index = file.read()
    with open(os.path.join(search, "search_index.js"), "w", encoding="utf-8") as file:
        file.write(f"window.siteIndex = {index}.docs;\n")
    for unused in ("lunr.js", "main.js", "worker.js"):
        os.remove(os.path.join(search, unused))
