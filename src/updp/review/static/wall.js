// A wall of any number of films: only the rows in sight exist, on a pane with a layer of its own. A slow scroll moves the
// rows that went out of sight and fills them. A fast one moves the pane alone, its tiles empty: nothing is laid out or
// painted anew, and nothing is fetched until the scrolling slows down. The pictures of a row come as one strip.
"use strict";
(() => {
  const wall = document.getElementById("wall"), sheet = document.getElementById("sheet"), pane = document.getElementById("pane");
  const filters = document.getElementById("filters"), query = wall.dataset.query;
  filters.addEventListener("change", () => filters.requestSubmit());
  const CHUNK = 120, LABEL = 26, GAP = 10, PADDING = 5, MARGIN = 1, FAST = 2, REST = 90;
  const { total, rows } = JSON.parse(wall.dataset.first);
  const known = new Map([[0, rows]]), asked = new Set([0]), lines = new Map();
  let columns = 1, side = 180, height = 200, seen = 600, top = 0, chosen = 0;

  const film = (n) => { const chunk = known.get(Math.floor(n / CHUNK)); return chunk && chunk[n % CHUNK]; };
  const want = async (chunk) => {
    if (asked.has(chunk)) return;
    asked.add(chunk);
    try {
      const answer = await fetch(`/desk/films?${query}&offset=${chunk * CHUNK}&limit=${CHUNK}`, { headers: { accept: "application/json" } });
      if (!answer.ok) throw new Error(answer.status);
      known.set(chunk, (await answer.json()).rows);
      rest();
    } catch { asked.delete(chunk); }
  };

  // -- rows and tiles ------------------------------------------------------------------------------------------------
  const element = (kind, name) => Object.assign(document.createElement(kind), { className: name });
  const makeTile = () => {
    const tile = element("a", "tile"), frame = element("span", "frame"), image = element("img", ""), name = element("span", "name");
    const unseen = element("span", "unseen"), view = element("b", ""), findings = new Text();
    tile.setAttribute("role", "option");
    tile.tabIndex = -1;
    Object.assign(image, { alt: "", decoding: "async" });
    image.addEventListener("load", () => image.classList.add("here"));
    frame.append(image);
    name.append(unseen, view, findings);
    tile.append(frame, name);
    return Object.assign(tile, { image, unseen, view, findings, film: null });
  };
  const makeLine = () => {
    const line = element("div", "line");
    line.setAttribute("role", "presentation");
    line.append(...Array.from({ length: columns }, makeTile));
    return Object.assign(line, { filled: false, strip: null, address: "" });
  };
  const empty = (line) => {
    if (!line.filled) return;
    line.strip?.abort();
    URL.revokeObjectURL(line.address);
    Object.assign(line, { filled: false, strip: null, address: "" });
    for (const tile of line.children) {
      tile.image.removeAttribute("src");
      tile.image.className = "";
      tile.removeAttribute("href");
      tile.removeAttribute("id");
      tile.removeAttribute("title");
      tile.removeAttribute("aria-selected");
      tile.hidden = false;
      tile.film = null;
      tile.unseen.textContent = tile.view.textContent = tile.findings.data = "";
    }
  };
  const fill = (line, at) => {
    line.filled = true;
    for (let n = at * columns, m = 0; m < columns; n++, m++) {
      const tile = line.children[m], found = film(n);
      tile.hidden = n >= total;
      if (!found || tile.film) continue;
      const [id, view, findings, likeness] = found;
      tile.film = id;
      tile.id = "tile-" + n;
      tile.href = `/desk/film/${id}?${query}`;
      tile.setAttribute("aria-selected", n === chosen);
      tile.setAttribute("aria-posinset", n + 1);
      tile.setAttribute("aria-setsize", total);
      tile.title = findings;
      tile.unseen.textContent = `film ${n + 1} of ${total}, `;
      tile.view.textContent = view ? view + " " : "";
      tile.findings.data = findings + (likeness === null || likeness < -0.999 ? "" : " · " + likeness.toFixed(2));
    }
  };
  const pictures = async (line) => {
    const tiles = [...line.children].filter((tile) => !tile.hidden);
    if (line.strip || tiles.some((tile) => !tile.film)) return;
    const strip = line.strip = new AbortController();
    try {
      const answer = await fetch(`/desk/strip/${tiles.map((tile) => tile.film).join(",")}?side=${Math.round((side - 2 * PADDING) * (devicePixelRatio || 1))}`, { signal: strip.signal });
      if (!answer.ok) throw new Error(answer.status);
      const data = await answer.blob();
      if (line.strip !== strip) return;
      line.address = URL.createObjectURL(data);
      tiles.forEach(({ image }, m) => {
        image.style.width = `${100 * tiles.length}%`;
        image.style.left = `${-100 * m}%`;
        image.src = line.address;
      });
    } catch { if (line.strip === strip) line.strip = null; }
  };

  // -- scrolling -----------------------------------------------------------------------------------------------------
  let timer = 0, before = 0;
  const rest = () => { for (const [at, line] of lines) { fill(line, at); pictures(line); } };
  const range = () => {
    const y = wall.scrollTop, last = Math.ceil(total / columns) - 1;
    return [Math.max(0, Math.floor(y / height) - MARGIN), Math.min(last, Math.floor((y + seen) / height) + MARGIN)];
  };
  const draw = () => {
    const [first, last] = range(), fast = Math.abs(first - before) > FAST || !lines.size, spare = [];
    before = first;
    for (const [at, line] of lines) if (fast || at < first || at > last) { lines.delete(at); spare.push(line); }
    if (fast) { top = first; pane.style.transform = `translateY(${top * height}px)`; }
    for (let at = first; at <= last; at++) {
      if (lines.has(at)) continue;
      const line = spare.shift() || makeLine(), y = `translateY(${(at - top) * height}px)`;
      lines.set(at, line);
      empty(line);
      if (line.style.transform !== y) line.style.transform = y;
      if (!line.parentNode) pane.append(line);
      if (!fast) fill(line, at);
    }
    for (const line of spare) { empty(line); line.remove(); }
    if (fast) { clearTimeout(timer); timer = 0; }
    else for (let chunk = Math.floor(first * columns / CHUNK); chunk <= Math.floor(Math.min(total - 1, (last + 1) * columns - 1) / CHUNK); chunk++) want(chunk);
    if (!timer) timer = setTimeout(slowed, REST);
  };
  const slowed = () => { draw(); timer = 0; rest(); };
  const measure = () => {
    seen = wall.clientHeight;
    const width = wall.clientWidth, count = Math.max(1, Math.floor(width / (width > 2200 ? 230 : 180)));
    side = Math.floor(width / count);
    height = side + LABEL;
    sheet.style.height = Math.ceil(total / count) * height + GAP + "px";
    wall.style.setProperty("--side", side + "px");
    columns = count;
    lines.forEach((line) => { empty(line); line.remove(); });
    lines.clear();
    draw();
    rest();
  };
  wall.addEventListener("scroll", draw, { passive: true });

  // -- choosing ------------------------------------------------------------------------------------------------------
  const tileOf = (n) => lines.get(Math.floor(n / columns))?.children[n % columns];
  const choose = (n) => {
    tileOf(chosen)?.setAttribute("aria-selected", false);
    chosen = Math.min(Math.max(n, 0), total - 1);
    const y = Math.floor(chosen / columns) * height;
    if (y < wall.scrollTop) wall.scrollTop = y;
    if (y + height > wall.scrollTop + seen) wall.scrollTop = y + height - seen;
    draw();
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
  wall.focus({ preventScroll: true });
})();
