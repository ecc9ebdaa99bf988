"""Checks a built site: every link to a page of it, and every anchor, leads somewhere."""
import html.parser, pathlib, sys, urllib.parse


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.places, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.places.update(attributes[name] for name in ("id", "name") if attributes.get(name))
        self.links += [attributes[name] for name in ("href", "src") if attributes.get(name)]


site = pathlib.Path(sys.argv[1]).resolve()
pages = {path: Page(path.read_text()) for path in site.rglob("*.html")}
seen, faults = 0, []
for path, page in pages.items():
    # All pages in one, whose links are those of the pages; and the page for what is not there.
    if path.name in ("print.html", "404.html", "toc.html"):
        continue
    for link in page.links:
        url = urllib.parse.urlsplit(link)
        if url.scheme or url.netloc:
            continue
        seen += 1
        target = (path.parent / urllib.parse.unquote(url.path)).resolve() if url.path else path
        if not target.exists():
            faults.append(f"{path.relative_to(site)}: {link}: there is no such page")
        elif url.fragment and target in pages and urllib.parse.unquote(url.fragment) not in pages[target].places:
            faults.append(f"{path.relative_to(site)}: {link}: there is no such place")
if faults or seen < 1000:
    sys.exit("\n".join(sorted(set(faults))) or f"only {seen} links in {site}")
print(f"{len(pages)} pages, {seen} links")
