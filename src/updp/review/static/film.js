// The comparison: original and released film side by side, the next film one key away.
"use strict";
(() => {
  const page = document.getElementById("study"), reading = document.getElementById("reading");
  const canvases = [...document.querySelectorAll("canvas[data-film]")];
  const viewer = new Viewer(canvases, (v) => {
    reading.textContent = `W ${Math.round(v.width)} · L ${Math.round(v.level)} · ${Math.round(v.zoom * 100)} %`;
  });
  canvases.forEach(async (canvas, n) => {
    const answer = await fetch(canvas.dataset.film);
    if (!answer.ok) { canvas.setAttribute("aria-label", "The film cannot be shown"); return; }
    viewer.show(n, await createImageBitmap(await answer.blob()));
    canvas.dataset.shown = "yes";
  });
  const modes = [...document.querySelectorAll("[data-mode]")];
  const choose = (mode) => {
    const button = modes.find((one) => one.dataset.mode === mode);
    if (!button) return;
    modes.forEach((one) => one.setAttribute("aria-checked", one === button));
    viewer.chosen(mode);
  };
  modes.forEach((button) => button.addEventListener("click", () => choose(button.dataset.mode)));
  const does = { in: () => viewer.zoomed(1.25), out: () => viewer.zoomed(0.8), fit: () => { viewer.reset(); viewer.draw(); } };
  document.querySelectorAll("[data-do]").forEach((button) => button.addEventListener("click", does[button.dataset.do]));
  const go = (id) => { if (id) location.href = `/desk/film/${id}?${page.dataset.query}`; };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    const key = event.key.toLowerCase();
    if (key === "n") go(page.dataset.after);
    else if (key === "p") go(page.dataset.before);
    else if (key === "f") choose("plain");
    else if (key === "d") choose("difference");
    else if (key === "e") choose("edges");
    else if (viewer.key(event)) event.preventDefault();
  });
})();
