// A wall of any number of films: only the tiles in sight exist, and their pictures are fetched when they come to rest.
"use strict";
(() => {
  const wall = document.getElementById("wall"), sheet = document.getElementById("sheet");
  const filters = document.getElementById("filters"), query = wall.dataset.query;
  filters.addEventListener("change", () => filters.requestSubmit());
  const CHUNK = 120, LABEL = 26, GAP = 10, MARGIN = 2;
  let { total, rows } = JSON.parse(wall.dataset.first);
  const known = new Map([[0, rows]]), asked = new Set([0]), tiles = new Map(), spare = [];
  let columns = 1, side = 180, height = 200, chosen = 0;

  const measure = () => {
    const wish = wall.clientWidth > 2200 ? 230 : 180;
    columns = Math.max(1, Math.floor(wall.clientWidth / wish));
    side = Math.floor(wall.clientWidth / columns);
    height = side + LABEL;
    sheet.style.height = Math.ceil(total / columns) * height + GAP + "px";
  };
  const row = (n) => { const chunk = known.get(Math.floor(n / CHUNK)); return chunk && chunk[n % CHUNK]; };
  const want = async (chunk) => {
    if (asked.has(chunk)) return;
    asked.add(chunk);
    try {
      const answer = await fetch(`/desk/films?${query}&offset=${chunk * CHUNK}&limit=${CHUNK}`, { headers: { accept: "application/json" } });
      if (!answer.ok) throw new Error(answer.status);
      known.set(chunk, (await answer.json()).rows);
      for (const [n, tile] of tiles) if (Math.floor(n / CHUNK) === chunk) fill(tile, n);
      settle();
    } catch { asked.delete(chunk); }
  };
  const make = () => {
    const tile = document.createElement("a");
    tile.className = "tile";
    tile.setAttribute("role", "option");
    tile.tabIndex = -1;
    const frame = document.createElement("span"), image = document.createElement("img"), name = document.createElement("span");
    frame.className = "frame";
    name.className = "name";
    image.alt = "";
    image.decoding = "async";
    image.addEventListener("load", () => image.classList.add("here"));
    frame.append(image);
    tile.append(frame, name);
    return tile;
  };
  const fill = (tile, n) => {
    const film = row(n), image = tile.querySelector("img"), name = tile.querySelector(".name");
    tile.style.width = side + "px";
    tile.style.transform = `translate(${(n % columns) * side}px, ${Math.floor(n / columns) * height}px)`;
    tile.setAttribute("aria-selected", n === chosen);
    tile.id = "tile-" + n;
    if (!film) { image.removeAttribute("src"); image.classList.remove("here"); name.textContent = ""; return; }
    const [id, view, findings, likeness] = film;
    tile.href = `/desk/film/${id}?${query}`;
    tile.setAttribute("aria-posinset", n + 1);
    tile.setAttribute("aria-setsize", total);
    const strong = document.createElement("b");
    strong.textContent = view ? view + " " : "";
    const unseen = Object.assign(document.createElement("span"), { className: "unseen", textContent: `film ${n + 1} of ${total}, ` });
    name.replaceChildren(unseen, strong, findings + (likeness === null || likeness < -0.999 ? "" : " · " + likeness.toFixed(2)));
    if (tile.dataset.id !== id) { tile.dataset.id = id; image.classList.remove("here"); image.removeAttribute("src"); }
  };
  // Pictures are asked for when scrolling rests, so that a fast scroll past thousands costs nothing.
  let timer = 0;
  const settle = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      for (const tile of tiles.values()) {
        const image = tile.querySelector("img");
        if (tile.dataset.id && !image.getAttribute("src")) image.src = `/desk/film/${tile.dataset.id}/thumb.jpg`;
      }
    }, 60);
  };
  let drawn = "";
  const draw = () => {
    const first = Math.max(0, Math.floor(wall.scrollTop / height) - MARGIN) * columns;
    const last = Math.min(total, Math.ceil((wall.scrollTop + wall.clientHeight) / height + MARGIN) * columns);
    const mark = `${first} ${last} ${side}`;
    if (mark === drawn) return;
    drawn = mark;
    for (const [n, tile] of tiles) if (n < first || n >= last) { tiles.delete(n); spare.push(tile); }
    for (let n = first; n < last; n++) {
      if (tiles.has(n)) continue;
      const tile = spare.pop() || make();
      tiles.set(n, tile);
      fill(tile, n);
      if (!tile.parentNode) sheet.append(tile);
    }
    for (const tile of spare.splice(0)) tile.remove();
    for (let chunk = Math.floor(first / CHUNK); chunk <= Math.floor(Math.max(first, last - 1) / CHUNK); chunk++) want(chunk);
    settle();
  };
  let queued = false;
  wall.addEventListener("scroll", () => {
    if (queued) return;
    queued = true;
    requestAnimationFrame(() => { queued = false; draw(); });
  }, { passive: true });
  const choose = (n) => {
    chosen = Math.min(Math.max(n, 0), total - 1);
    const top = Math.floor(chosen / columns) * height;
    if (top < wall.scrollTop) wall.scrollTop = top;
    if (top + height > wall.scrollTop + wall.clientHeight) wall.scrollTop = top + height - wall.clientHeight;
    draw();
    for (const [m, tile] of tiles) tile.setAttribute("aria-selected", m === chosen);
    wall.setAttribute("aria-activedescendant", "tile-" + chosen);
    try { sessionStorage.setItem("updp-wall " + query, chosen); } catch { /* not kept */ }
  };
  wall.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(wall.clientHeight / height)) * columns;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, PageDown: page, PageUp: -page, Home: -total, End: total }[event.key];
    if (step !== undefined) { event.preventDefault(); choose(chosen + step); }
    if (event.key === "Enter" && row(chosen)) location.href = `/desk/film/${row(chosen)[0]}?${query}`;
  });
  sheet.addEventListener("click", (event) => {
    const tile = event.target.closest(".tile");
    if (tile) choose(Number(tile.id.slice(5)));
  });
  new ResizeObserver(() => { measure(); drawn = ""; for (const [n, tile] of tiles) fill(tile, n); draw(); }).observe(wall);
  measure();
  draw();
  let before = 0;
  try { before = Number(sessionStorage.getItem("updp-wall " + query)) || 0; } catch { /* from the start */ }
  if (before) choose(before);
  wall.focus({ preventScroll: true });
})();
