"use strict";
// Keeps a page as its server sees it now, and writes times in the reader's zone. Without it every
// page is whole, and of the moment when it was asked for.
(() => {
  const pause = document.getElementById("pause");
  const connection = document.getElementById("connection");
  const address = document.body.dataset.live;
  const waiting = new Map();
  let paused = false;
  let source = null;
  let heardAt = Date.now();

  const local = new Intl.DateTimeFormat(undefined, {
    year: "numeric", month: "2-digit", day: "2-digit",
    hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short",
  });
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });

  function inZone(root) {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (!Number.isNaN(at.valueOf()) && !time.title) {
        time.title = time.textContent;
        time.textContent = local.format(at);
      }
    }
    for (const text of root.querySelectorAll("text[data-at]")) {
      text.textContent = clock.format(new Date(text.dataset.at));
    }
  }

  // What a reader is about to use stays: the focus, an open list, marked text.
  function isHeld(part) {
    const selection = document.getSelection();
    const marked = selection && !selection.isCollapsed && part.contains(selection.anchorNode);
    const active = document.activeElement;
    return marked || (part.contains(active) && ["SELECT", "INPUT"].includes(active.tagName));
  }

  function placeOf(part) {
    const active = document.activeElement;
    if (!active || active === part || !part.contains(active)) return null;
    const alike = [...part.querySelectorAll(active.tagName)];
    const href = active.getAttribute("href");
    return { tag: active.tagName, href, index: alike.indexOf(active) };
  }

  function focusAgain(part, place) {
    const alike = [...part.querySelectorAll(place.tag)];
    const isSame = (one) => one !== undefined && one.getAttribute("href") === place.href;
    const there = alike[place.index];
    const moved = place.href === null || isSame(there) ? undefined : alike.find(isSame);
    const found = moved || there;
    if (found) found.focus({ preventScroll: true });
  }

  function show(name, html) {
    const part = document.querySelector(`[data-part="${CSS.escape(name)}"]`);
    if (!part) return;
    if (paused || isHeld(part)) {
      waiting.set(name, html);
      return;
    }
    waiting.delete(name);
    const place = placeOf(part);
    const scrolled = [...part.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
    part.innerHTML = html;
    inZone(part);
    [...part.querySelectorAll(".scroll")].forEach((one, n) => { one.scrollLeft = scrolled[n] || 0; });
    if (place) focusAgain(part, place);
    part.dataset.shown = String(Number(part.dataset.shown || 0) + 1);
  }

  function showWaiting() {
    for (const [name, html] of [...waiting]) show(name, html);
  }

  function say(text) {
    if (connection.textContent !== text) connection.textContent = text;
    document.body.classList.toggle("away", text !== "" && text !== "live");
  }

  function listen() {
    source = new EventSource(address);
    source.onopen = () => { heardAt = Date.now(); say("live"); };
    source.onmessage = (event) => {
      heardAt = Date.now();
      say("live");
      for (const [name, html] of Object.entries(JSON.parse(event.data))) show(name, html);
    };
    source.onerror = () => {
      const since = Math.round((Date.now() - heardAt) / 1000);
      say(`not connected: what is shown is ${since} s old`);
      if (source.readyState === EventSource.CLOSED) {
        source.close();
        setTimeout(listen, 2000);
      }
    };
  }

  inZone(document);
  if (address && "EventSource" in window) {
    pause.hidden = false;
    pause.addEventListener("click", () => {
      paused = !paused;
      pause.setAttribute("aria-pressed", String(paused));
      pause.textContent = paused ? "Go on with updates" : "Pause updates";
      if (!paused) showWaiting();
    });
    setInterval(() => {
      if (!paused) showWaiting();
      if (source && source.readyState !== EventSource.OPEN) {
        say(`not connected: what is shown is ${Math.round((Date.now() - heardAt) / 1000)} s old`);
      }
    }, 1000);
    listen();
  }
})();
