"""HTML as the standard library's parser sees it."""

from html.parser import HTMLParser


class Reader(HTMLParser):
    """Tables as lists of rows of (text, attributes), ids, tags, and everything that is fetched."""

    VOID = frozenset({"meta", "link", "img", "br"})

    def __init__(self, text):
        super().__init__()
        self.tables, self.ids, self.sources, self.links, self.open = [], [], [], [], []
        self.tags, self.text = [], ""
        self.feed(text)
        assert self.open == [], "every element is closed"

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.append((tag, given))
        self.ids += [given["id"]] if "id" in given else []
        self.sources += [given[key] for key in ("src", "srcset", "data") if key in given]
        self.links += [given["href"]] if "href" in given else []
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append(["", given])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1][0] += data
