// The comparison: original and released film side by side. The next page and its films are fetched before they are asked
// for, so that a key press shows them at once.
"use strict";
(() => {
  const main = document.getElementById("main"), ahead = new Map(), AHEAD = 4;
  let page, viewer, modes, turning = "";

  const bitmap = async (address) => {
    const answer = await fetch(address);
    return answer.ok ? createImageBitmap(await answer.blob()) : null;
  };
  // A page that may be asked for, and its films.
  const fetched = (address) => {
    if (!ahead.has(address)) {
      const text = fetch(address).then((answer) => { if (!answer.ok) throw new Error(answer.status); return answer.text(); });
      const part = text.then((html) => new DOMParser().parseFromString(html, "text/html").getElementById("main"));
      const films = part.then((found) => Promise.all([...found.querySelectorAll("canvas[data-film]")].map((canvas) => bitmap(canvas.dataset.film))));
      const entry = Promise.all([part, films]);
      entry.catch(() => ahead.delete(address));
      ahead.set(address, entry);
      while (ahead.size > AHEAD) ahead.delete(ahead.keys().next().value);
    }
    return ahead.get(address);
  };
  const place = (id) => id && `/desk/film/${id}?${page.dataset.query}`;

  // Set up the page that is in the document.
  const begin = (films) => {
    page = document.getElementById("study");
    modes = [...page.querySelectorAll("[data-mode]")];
    const canvases = [...page.querySelectorAll("canvas[data-film]")], reading = document.getElementById("reading");
    viewer = new Viewer(canvases, (v) => { reading.textContent = v.words; });
    const shown = canvases.map(async (canvas, n) => {
      const film = films ? films[n] : await bitmap(canvas.dataset.film);
      if (!film) { canvas.setAttribute("aria-label", "The film cannot be shown"); return; }
      viewer.show(n, film);
      canvas.dataset.shown = "yes";
    });
    modes.forEach((button) => button.addEventListener("click", () => choose(button.dataset.mode)));
    const does = { in: () => viewer.zoomed(1.25), out: () => viewer.zoomed(0.8), fit: () => { viewer.reset(); viewer.draw(); } };
    page.querySelectorAll("[data-do]").forEach((button) => button.addEventListener("click", does[button.dataset.do]));
    for (const id of ["before", "after"]) document.getElementById(id)?.addEventListener("click", (event) => { event.preventDefault(); go(page.dataset[id]); });
    Promise.all(shown).then(() => requestAnimationFrame(() => requestAnimationFrame(() => {
      document.body.dataset.shown = location.pathname;
      performance.mark("shown " + location.pathname);
      for (const id of ["after", "before"]) if (page.dataset[id]) fetched(place(page.dataset[id])).catch(() => {});
    })));
    if (page.dataset.seeking) setTimeout(seek, 1000, page);
  };
  // The original is still being looked for: show the page again when it may be found.
  const seek = async (from) => {
    if (page !== from) return;
    const answer = await fetch("/desk/status", { headers: { accept: "application/json" } }).catch(() => null);
    if (!answer?.ok || (await answer.json()).seeking) return setTimeout(seek, 1000, from);
    if (page === from && !turning) turn(location.pathname + location.search);
  };
  // What an officer has opened or typed stays where the same study is shown again.
  const keep = (part) => {
    const [old, made] = [page, part.querySelector("#study")].map((one) => one.querySelector("[data-decide]"));
    if (old.dataset.decide !== made.dataset.decide) return null;
    const field = document.activeElement, facts = page.querySelector(".facts").scrollTop;
    made.replaceWith(old);
    return () => {
      page.querySelector(".facts").scrollTop = facts;
      if (old.contains(field)) field.focus({ preventScroll: true });
      return old.contains(field);
    };
  };
  const choose = (mode) => {
    const button = modes.find((one) => one.dataset.mode === mode);
    if (!button) return;
    modes.forEach((one) => one.setAttribute("aria-checked", one === button));
    viewer.chosen(mode);
    const legend = document.getElementById("legend");
    if (legend) legend.hidden = mode !== "difference";
  };
  const turn = async (address) => {
    turning = address;
    try {
      const [part, films] = await fetched(address);
      ahead.delete(address); // what is decided on the page changes it
      if (turning !== address) return; // another one was asked for meanwhile
      const kept = keep(part);
      main.replaceChildren(...part.childNodes);
      begin(films);
      if (!kept?.()) main.focus({ preventScroll: true });
    } catch { location.href = address; } finally { if (turning === address) turning = ""; }
  };
  const go = (id) => {
    const address = place(id);
    if (!address || turning === address) return;
    performance.mark("asked " + address.split("?")[0]);
    history.pushState(null, "", address);
    turn(address);
  };
  addEventListener("popstate", () => turn(location.pathname + location.search));
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    const key = event.key.toLowerCase(), mode = { f: "plain", d: "difference", e: "edges" }[key];
    if (key === "n") go(page.dataset.after);
    else if (key === "p") go(page.dataset.before);
    else if (mode) choose(mode);
    else if (viewer.key(event)) event.preventDefault();
  });
  begin(null);
})();
