// A wall of any number of films: only the rows in sight and a few beside them exist. Each row is a layer of its own with
// one picture, which the browser fetches and decodes beside the page's script. A row that left is moved and filled for
// its new place, a few in a frame. A scroll too fast to see anything moves the pane alone, its rows empty.
"use strict";
(() => {
  const wall = document.getElementById("wall"), sheet = document.getElementById("sheet"), pane = document.getElementById("pane");
  const filters = document.getElementById("filters"), { query, measured } = wall.dataset;
  // A choice loads the page again; who chooses by arrow keys stays in the field.
  const CHOSEN = "updp-filter";
  filters.addEventListener("change", (event) => {
    try { sessionStorage.setItem(CHOSEN, event.target.name); } catch { /* the wall has the focus */ }
    filters.requestSubmit();
  });
  const CHUNK = 120, LABEL = 26, GAP = 10, AHEAD = 3, BEHIND = 1, SOON = 8; // films, pixels, rows
  const FAST = 7, REST = 90, BUDGET = 4; // pixels per millisecond; milliseconds until it is over, and for rows in a frame
  const { total, rows } = JSON.parse(wall.dataset.first);
  const known = new Map([[0, rows]]), asked = new Set([0]), lines = new Map();
  let columns = 1, side = 180, height = 200, seen = 600, top = 0, chosen = 0;

  const film = (n) => known.get(Math.floor(n / CHUNK))?.[n % CHUNK];
  const want = async (chunk) => {
    if (chunk < 0 || chunk * CHUNK >= total || asked.has(chunk)) return;
    asked.add(chunk);
    try {
      const answer = await fetch(`/desk/films?${query}&offset=${chunk * CHUNK}&limit=${CHUNK}`, { headers: { accept: "application/json" } });
      if (!answer.ok) throw new Error(answer.status);
      known.set(chunk, (await answer.json()).rows);
      later();
    } catch { asked.delete(chunk); }
  };

  // -- rows ----------------------------------------------------------------------------------------------------------
  const element = (kind, name) => Object.assign(document.createElement(kind), { className: name });
  const makeTile = () => {
    const tile = element("a", "tile"), name = element("span", "name"), view = element("b", ""), words = new Text(), value = element("span", "value");
    tile.setAttribute("role", "option");
    tile.tabIndex = -1;
    name.append(view, words, " ", value);
    tile.append(element("span", "frame"), name);
    return Object.assign(tile, { view, words, value });
  };
  const makeLine = () => {
    const line = element("div", "line blank"), picture = element("img", "strip"), tiles = Array.from({ length: columns }, makeTile);
    line.setAttribute("role", "presentation");
    picture.alt = "";
    line.append(picture, ...tiles);
    return Object.assign(line, { picture, tiles, filled: false });
  };
  const empty = (line) => {
    if (!line.filled) return;
    line.filled = false;
    line.className = "line blank";
    line.picture.className = "strip";
    if (!line.picture.complete) line.picture.removeAttribute("src"); // ends the request
    if (line.style.width) line.style.width = ""; // it was the last row
    for (const tile of line.tiles) {
      tile.removeAttribute("id");
      tile.removeAttribute("aria-selected");
      tile.hidden = false;
    }
  };
  // The films of a row and their picture; false where they are not known yet.
  const fill = (line, at) => {
    const first = at * columns, found = [];
    for (let n = first; n < Math.min(total, first + columns); n++) found.push(film(n));
    if (!found.every(Boolean)) return false;
    line.tiles.forEach((tile, m) => {
      tile.hidden = m >= found.length;
      if (tile.hidden) return;
      const [id, view, findings, likeness, sure, decided] = found[m], n = first + m, value = measured === "seen" ? sure : likeness;
      const number = value === null || value < -0.999 ? "" : value.toFixed(2), told = decided ? ` · decided: ${decided}` : "";
      tile.id = "tile-" + n;
      tile.href = `/desk/film/${id}?${query}`;
      tile.title = findings + told;
      tile.className = decided ? "tile decided" : "tile";
      tile.setAttribute("aria-label", `${view} ${findings} ${number}, film ${n + 1} of ${total}${told}`); // begins as it is written
      tile.setAttribute("aria-selected", n === chosen);
      tile.setAttribute("aria-posinset", n + 1);
      tile.setAttribute("aria-setsize", total);
      tile.view.textContent = view ? view + " " : "";
      tile.words.data = findings;
      tile.value.textContent = number;
    });
    const scale = devicePixelRatio || 1, picture = line.picture;
    line.className = "line";
    if (found.length < columns) line.style.width = found.length * side + "px";
    picture.src = `/desk/strip/${found.map((one) => one[0]).join(",")}?side=${Math.round((side - GAP) * scale)}&gap=${Math.round(GAP * scale)}`;
    // Decoded beside the script, then shown. A row that was emptied meanwhile has another picture, and this one fails.
    picture.decode().then(() => { if (line.filled) picture.className = "strip here"; }, () => {});
    return line.filled = true;
  };

  // -- scrolling -----------------------------------------------------------------------------------------------------
  let y = 0, down = true, fast = false, timer = 0, queued = 0, since = { y: 0, moment: 0 };
  const range = () => {
    const last = Math.ceil(total / columns) - 1, [above, below] = down ? [BEHIND, AHEAD] : [AHEAD, BEHIND];
    return [Math.max(0, Math.floor(y / height) - above), Math.min(last, Math.floor((y + seen) / height) + below)];
  };
  const place = () => {
    const [first, last] = range(), spare = [];
    for (const [at, line] of lines) if (fast || at < first || at > last) { lines.delete(at); spare.push(line); }
    if (!lines.size) { top = first; pane.style.transform = `translateY(${top * height}px)`; }
    for (let at = first; at <= last; at++) {
      if (lines.has(at)) continue;
      const line = spare.shift() || makeLine(), shift = `translateY(${(at - top) * height}px)`;
      lines.set(at, line);
      empty(line);
      if (line.shift !== shift) line.style.transform = line.shift = shift;
      if (!line.parentNode) pane.append(line);
    }
    for (const line of spare) { empty(line); line.remove(); }
    later();
  };
  // Rows are filled as far as a part of a frame allows, those in sight first; the rest waits for the next frame.
  const later = () => { if (!queued && !fast) queued = requestAnimationFrame(work); };
  const work = () => {
    queued = 0;
    if (fast) return;
    const begun = performance.now(), middle = (y + seen / 2) / height - 0.5, waiting = [...lines].filter(([, line]) => !line.filled);
    waiting.sort(([a], [b]) => Math.abs(a - middle) - Math.abs(b - middle));
    for (const [at, line] of waiting) if (fill(line, at) && performance.now() - begun > BUDGET) { later(); break; }
    const [first, last] = range(), chunk = (at) => Math.floor(at * columns / CHUNK);
    for (let n = chunk(first - SOON); n <= chunk(last + SOON); n++) want(n);
  };
  const slowed = () => { fast = false; place(); };
  const scrolled = () => {
    const now = performance.now(), to = wall.scrollTop, passed = now - since.moment;
    if (Math.abs(to - since.y) > FAST * Math.min(Math.max(passed, 50), 250)) {
      fast = true;
      clearTimeout(timer);
      timer = setTimeout(slowed, REST);
    }
    if (passed >= 50) since = { y: to, moment: now };
    if (to !== y) down = to > y;
    y = to;
    place();
  };
  const measure = () => {
    seen = wall.clientHeight;
    const width = wall.clientWidth;
    columns = Math.max(1, Math.floor(width / (width > 2200 ? 230 : 180)));
    side = Math.floor(width / columns);
    height = side + LABEL;
    sheet.style.height = Math.ceil(total / columns) * height + GAP + "px";
    wall.style.setProperty("--side", side + "px");
    wall.style.setProperty("--row", columns * side + "px");
    lines.forEach((line) => { empty(line); line.remove(); });
    lines.clear();
    y = wall.scrollTop;
    place();
  };
  wall.addEventListener("scroll", scrolled, { passive: true });

  // -- choosing ------------------------------------------------------------------------------------------------------
  const tileOf = (n) => lines.get(Math.floor(n / columns))?.tiles[n % columns];
  const choose = (n) => {
    tileOf(chosen)?.setAttribute("aria-selected", false);
    chosen = Math.min(Math.max(n, 0), total - 1);
    const at = Math.floor(chosen / columns) * height;
    if (at < y) wall.scrollTop = at;
    if (at + height > y + seen) wall.scrollTop = at + height - seen;
    scrolled();
    tileOf(chosen)?.setAttribute("aria-selected", true);
    wall.setAttribute("aria-activedescendant", "tile-" + chosen);
    try { sessionStorage.setItem("updp-wall " + query, chosen); } catch { /* not kept */ }
  };
  wall.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(seen / height)) * columns;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, PageDown: page, PageUp: -page, Home: -total, End: total }[event.key];
    if (step !== undefined) { event.preventDefault(); choose(chosen + step); }
    if (event.key === "Enter" && film(chosen)) location.href = `/desk/film/${film(chosen)[0]}?${query}`;
  });
  sheet.addEventListener("click", (event) => {
    const tile = event.target.closest(".tile[id]");
    if (tile) choose(Number(tile.id.slice(5)));
  });
  let kept = 0;
  try { kept = Number(sessionStorage.getItem("updp-wall " + query)) || 0; } catch { /* from the start */ }
  measure();
  if (kept) choose(kept);
  new ResizeObserver(() => { if (wall.clientHeight !== seen || Math.floor(wall.clientWidth / columns) !== side) measure(); }).observe(wall);
  let field = null;
  try { field = filters.elements[sessionStorage.getItem(CHOSEN)]; sessionStorage.removeItem(CHOSEN); } catch { /* the wall */ }
  (field || wall).focus({ preventScroll: true });
})();
