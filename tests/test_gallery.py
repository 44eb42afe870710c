"""The gallery: its pictures are there, light, and those that its commands draw."""

from __future__ import annotations

import re
import shlex
import xml.etree.ElementTree as ET

from calibkit.options.plot import KINDS
from docs import write_gallery as gallery


def test_the_gallery_shows_every_kind_and_nothing_else() -> None:
    page = gallery.PAGE.read_text(encoding="utf-8")
    shown = gallery.pictures_of(page)
    assert sorted(shown) == sorted(f"{kind}.svg" for kind in KINDS)
    assert sorted(path.name for path in gallery.PICTURES.iterdir()) == sorted(shown)
    drawn = re.findall(r"^calibkit plot .*$", "\n".join(gallery.commands_of(page)), re.MULTILINE)
    assert [(words[2], words[-1]) for words in map(shlex.split, drawn)] == [
        (name.removesuffix(".svg"), name) for name in shown
    ]


def test_pictures_are_light_and_whole() -> None:
    for path in gallery.PICTURES.iterdir():
        data = path.read_bytes()
        assert len(data) < gallery.MOST_BYTES
        assert ET.fromstring(data).get("aria-label") == KINDS[path.stem].HEADING
