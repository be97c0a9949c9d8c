"""site.py SOURCE SITE: makes the site strictly. Then each link and anchor on it must have a target on it, no page may
fetch anything from a network, and the search index must have, for each document, the last long word of its text."""
import glob
import html.parser
import json
import os
import re
import subprocess
import sys
import urllib.parse

source, site = (os.path.abspath(path) for path in sys.argv[1:])
if subprocess.run(["mkdocs", "build", "--strict", "--quiet", "--clean", "-f", f"{source}/mkdocs.yml", "-d", site]).returncode != 0:
    sys.exit("FAILED: mkdocs")
failures = []


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.fetched = set(), [], []
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids.add(attributes.get("id"))
        target = attributes.get("href") or attributes.get("src")
        if target is None:
            return
        if re.match("[a-z]+:|//", target):
            if tag != "a" and not target.startswith("data:"):
                self.fetched.append(target)
        elif tag != "link":
            self.links.append(urllib.parse.unquote(target))


pages = {path: Page(path) for path in glob.glob(f"{site}/**/*.html", recursive=True) if not path.endswith("/404.html")}
links = 0
for path, page in pages.items():
    name = os.path.relpath(path, site)
    failures += [f"{name} fetches {target}" for target in page.fetched]
    for link in page.links:
        target, _, anchor = link.partition("#")
        to = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
        links += 1
        if not os.path.exists(to):
            failures.append(f"{name}: no {link}")
        elif anchor and to in pages and anchor not in pages[to].ids:
            failures.append(f"{name}: no heading {link}")

with open(f"{site}/search/search_index.json", encoding="utf-8") as file:
    found = {}
    for entry in json.load(file)["docs"]:
        location = entry["location"].partition("#")[0] or "index.html"
        found[location] = f"{found.get(location, '')} {entry['title']} {entry['text']}"
places = {"README.md": "index.html", "docs/README.md": "documents.html", "CHANGELOG.md": "changelog.html"}
documents = [*places, *(path for path in glob.glob("docs/**/*.md", root_dir=source, recursive=True) if path not in places)]
for path in documents:
    with open(f"{source}/{path}", encoding="utf-8") as file:
        text = re.sub(r"^```.*?^```$|\]\([^)]*\)|`[^`]*`", "", file.read(), flags=re.M | re.S)
    word = re.findall(r"[a-z]{6,}", text)[-1]
    place = places.get(path, path[len("docs/"):-len("md")] + "html")
    if word not in found.get(place, ""):
        failures.append(f"the search index has no {word} of {path}")

if failures or links < 1000 or len(documents) < 20:
    sys.exit("\n".join(["FAILED:", *failures]))
print(f"{len(pages)} pages, {links} links, {len(documents)} documents in the index")
