"""What `zkcoord top` shows, and what a key makes of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from zkcoord.console.views.overview import NOT_WELL, SORTS, TEXT_CHARS_MAX, WORST_FIRST, Wanted

UP, DOWN, PAGE_UP, PAGE_DOWN, HOME, END = "up", "down", "page-up", "page-down", "home", "end"
ENTER, BACK, ERASE = "enter", "back", "erase"
STEPS = {UP: -1, "k": -1, DOWN: 1, "j": 1}
PAGES = {PAGE_UP: -1, PAGE_DOWN: 1}
SORTED = tuple(SORTS)


@dataclass(frozen=True)
class TopState:
    """`at` is the group that is marked, among those that are shown; `group` the one whose own page
    is shown ("": the list). `typing`: what is typed is looked for. `is_over`: it ends.
    """

    wanted: Wanted = field(default_factory=Wanted)
    at: int = 0
    group: str = ""
    typing: bool = False
    helps: bool = False
    is_over: bool = False

    def within(self, found: int) -> TopState:
        """The same where so many groups are shown."""
        return replace(self, at=max(0, min(self.at, found - 1)))

    def pressed(self, key: str, shown: list[str], page: int) -> TopState:
        """What a key does; `shown` are the names of the groups in their order, `page` how many are
        on the screen.
        """
        if self.helps:
            return replace(self, helps=False)
        if self.typing:
            return self._typed(key)
        if key == "q":
            return replace(self, is_over=True)
        if key in ("h", "?"):
            return replace(self, helps=True)
        if self.group:
            return replace(self, group="") if key in (BACK, ERASE, ENTER) else self
        return self._of_list(key, shown, page).within(len(shown))

    def _of_list(self, key: str, shown: list[str], page: int) -> TopState:
        if key in STEPS:
            return replace(self, at=self.at + STEPS[key])
        if key in PAGES:
            return replace(self, at=self.at + PAGES[key] * page)
        if key in (HOME, END):
            return replace(self, at=0 if key == HOME else len(shown) - 1)
        if key == ENTER and self.at < len(shown):
            return replace(self, group=shown[self.at])
        if key == "/":
            return replace(self, typing=True, at=0)
        if key == BACK:
            return replace(self, wanted=replace(self.wanted, find="", verdict=""), at=0)
        if key == "w":
            verdict = "" if self.wanted.verdict else NOT_WELL
            return replace(self, wanted=replace(self.wanted, verdict=verdict), at=0)
        if key == "r":
            return replace(self, wanted=replace(self.wanted, down=not self.wanted.down))
        if key == "s":
            sort = SORTED[(SORTED.index(self.wanted.sort) + 1) % len(SORTED)]
            return replace(
                self, wanted=replace(self.wanted, sort=sort, down=sort in WORST_FIRST), at=0
            )
        return self

    def _typed(self, key: str) -> TopState:
        find = self.wanted.find
        if key == ENTER:
            return replace(self, typing=False)
        if key == BACK:
            return replace(self, typing=False, wanted=replace(self.wanted, find=""))
        if key == ERASE:
            find = find[:-1]
        elif len(key) == 1 and key.isprintable():
            find = (find + key)[:TEXT_CHARS_MAX]
        return replace(self, wanted=replace(self.wanted, find=find), at=0)
